"""The `skill` command: arguments in, text out. The only module that prints; everything it needs is imported when needed."""

from __future__ import annotations

import argparse
import difflib
import io
import os
import re
import sys
import threading
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cudagraph_skill import __version__
from cudagraph_skill.check.findings import Report
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import Steps, operand, printable, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO, TextIO

    from cudagraph_skill.corpus.index import Index
    from cudagraph_skill.scaffold.file import Program

EXIT_CODES = """\
exit codes: 0 an answer, 1 nothing found, 2 the command was not understood, 3 this machine lacks something it needs"""


_WRITING_CODES = """\
exit codes: 0 an answer, or verified, 1 a check of the program failed, 2 the command was not understood, options do not go
together, or a file stays as it is, 3 this machine lacks something it needs"""
_VERIFY = 600  # seconds
_MICROBATCHES = 4
# What may be asked of a program, beside its workflow.
_WISHES = {
    "training": "train: forward, backward and optimizer (default: inference)",
    "amp": "mixed precision, bf16 or fp16",
    "accumulate": f"add up the gradients of N microbatches in a step (default {_MICROBATCHES})",
    "ddp": "several GPUs with DistributedDataParallel",
    "fsdp": "several GPUs with FSDP2",
    "rng": "random numbers from a generator of its own",
    "partial": "graph the static parts around one that cannot be captured",
    "buckets": "inputs of several sizes: a graph for each, padded to the next",
    "decode": "generate token by token with a KV cache",
    "pool": "several graphs that share their memory",
    "fp8": "layers in FP8",
}
_T = TypeVar("_T")
_LOG_BYTES = 16 << 20  # at each end of a log


class _Parser(argparse.ArgumentParser):
    """argparse, with misuse answered in one sentence that names the fix."""

    def error(self, message: str) -> NoReturn:
        raise SkillError(f"{self.prog}: {message}; see `{self.prog} --help`")


def _at_least(least: int, text: str) -> int:
    number = int(text[:9])
    if number < least or len(text) > 6:
        raise argparse.ArgumentTypeError(f"is {text[:9]}, it must be {least} or more and at most 999999")
    return number


def _count(text: str) -> int:
    return _at_least(1, text)


def _number(text: str) -> int:
    return _at_least(0, text)


def _positive(text: str) -> float:
    number = float(text[:20])
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"is {text[:20]}, it must be above 0 and below a million")
    return number


def _percent(text: str) -> float:
    number = float(text[:20].removesuffix("%"))
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"is {text[:20]}: a share of the step in percent lies between 0 and 100")
    return number


_count.__name__ = _number.__name__ = "whole number"  # argparse names the type in its message
_positive.__name__ = _percent.__name__ = "number"


def parser() -> argparse.ArgumentParser:
    """All commands with their help; shell completion is made from this too."""
    top = _Parser(
        prog="skill",
        description="CUDA Graphs for PyTorch: answers from sources that are named, offline.",
        epilog=f'example: skill search "backward fails during capture"\n\n{EXIT_CODES}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"skill {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    _add_search(commands)
    _add_read(commands)
    _add_errors(commands)
    _add_explain(commands)
    _add_check(commands)
    _add_recommend(commands)
    _add_scaffold(commands)
    _add_serve(commands)
    _add_completion(commands)
    return top


def _add(commands: argparse._SubParsersAction[_Parser], name: str, text: str, example: str, codes: str = EXIT_CODES) -> _Parser:
    return commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"{example}\n\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_search(commands: argparse._SubParsersAction[_Parser]) -> None:
    new = _add(
        commands,
        "search",
        "answer a question with the shortest passages that suffice",
        'example: skill search "dropout gives the same mask every step"\n'
        "         skill search --limit 1 cudaErrorStreamCaptureUnjoined",
    )
    new.add_argument("question", nargs="*", help="a question, an API name, a flag or an error text; - reads it from stdin")
    new.add_argument("--limit", type=_count, default=3, metavar="K", help="how many passages (default 3)")
    new.add_argument("--page", type=_count, default=1, metavar="N", help="passages after the first (N-1)*K (default 1)")
    size = new.add_mutually_exclusive_group()
    size.add_argument(
        "--max-tokens", type=_count, metavar="T", help="length of all passages together (default 235 for each, at least 400)"
    )
    size.add_argument("--full", action="store_true", help="whole sections, however long")
    _add_corpus(new)
    new.set_defaults(run=_search)


def _add_read(commands: argparse._SubParsersAction[_Parser]) -> None:
    new = _add(
        commands,
        "read",
        "print one section, or the headings of a file",
        "example: skill read references/streams.md\n         skill read SKILL.md#requirements",
    )
    new.add_argument("ref", metavar="PATH[#HEADING|:LINE]", help="as `skill search` prints it")
    _add_corpus(new)
    new.set_defaults(run=_read)


def _add_errors(commands: argparse._SubParsersAction[_Parser]) -> None:
    new = _add(
        commands,
        "errors",
        "name the cause and the fix of an error, a log or a symptom",
        "example: python train.py 2>&1 | skill errors\n"
        '         skill errors "capturing stream has unjoined work"\n'
        "         skill errors --file slurm-1234.out",
    )
    new.add_argument("log", nargs="*", help="the error text, or what goes wrong in your words; - or nothing reads stdin")
    new.add_argument("--file", metavar="PATH", help="read the log from a file")
    new.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    new.set_defaults(run=_errors)


def _add_explain(commands: argparse._SubParsersAction[_Parser]) -> None:
    new = _add(
        commands,
        "explain",
        "print what is known about one error, cause or hazard",
        "example: skill explain 906\n         skill explain cudaErrorStreamCaptureUnjoined\n"
        "         skill explain nccl-watchdog\n         skill explain CG201",
    )
    new.add_argument(
        "name", metavar="ID|NUMBER|ENUM", help="an id that `skill errors` or `skill check` printed, CUDA's number or enum name"
    )
    new.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    new.set_defaults(run=_explain, corpus=None)


def _add_check(commands: argparse._SubParsersAction[_Parser]) -> None:
    new = _add(
        commands,
        "check",
        "read Python source and name the lines that break, or silently spoil, a CUDA graph capture",
        "example: skill check train.py:step\n"
        "         skill check src/ --ignore CG1\n"
        "         skill check --run train.py:step --shape 8x16      (captures it on the GPU, replays, compares with eager)\n"
        "         skill check --run --target Trainer.step -- python train.py --steps 20\n"
        "         git show HEAD:model.py | skill check - --function Model.forward\n\n"
        "a comment allows a line: `# cg: allow CG201 - reason`, at its end or alone above it; on a `def` the whole function",
        "exit codes: 0 nothing that breaks a capture, 1 errors or warnings, 2 the command was not understood, or a file is no\n"
        "Python, or (--run) the code fails without a graph, 3 this machine lacks something it needs",
    )
    new.add_argument("targets", nargs="*", metavar="FILE[:FUNCTION]|FOLDER", help="what to read; - reads source from stdin")
    new.add_argument("--function", metavar="NAME", help="the captured function or method, as NAME or CLASS.NAME")
    new.add_argument(
        "--all", action="store_true", help="take every forward, and every function with tensor arguments, as captured"
    )
    new.add_argument("--select", action="append", metavar="IDS", help="report these hazards only, for example CG2,CG301")
    new.add_argument("--ignore", action="append", metavar="IDS", help="do not report these")
    new.add_argument("--exclude", action="append", metavar="GLOB", help="leave out files and folders of this name or path")
    new.add_argument(
        "--output-format", choices=("full", "concise", "json", "github", "sarif"), default="full", help="default: full"
    )
    new.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    change = new.add_mutually_exclusive_group()
    change.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")
    change.add_argument("--fix", action="store_true", help="correct in the files what can be corrected mechanically")
    _add_run(new)
    new.set_defaults(run=_check, program=None)


def _add_run(check: _Parser) -> None:
    """The options of a capture on the GPU."""
    new = check.add_argument_group("on the GPU", "run the code in your interpreter, in a process of its own")
    new.add_argument(
        "--run", action="store_true", dest="on_gpu", help="capture FILE:FUNCTION, replay it, compare it with eager"
    )
    new.add_argument("--inputs", metavar="NAME", help="the function of the file that returns the arguments")
    new.add_argument(
        "--make", metavar="NAME", help="the function of the file that returns a dict with fn and inputs (default: make)"
    )
    new.add_argument(
        "--shape",
        action="append",
        metavar="SPEC",
        help="an argument: 8x128, 8x128:bf16, 8x128:int64<50257, =0.5; once for each",
    )
    new.add_argument("--warmup", type=_number, metavar="N", help="calls before the capture (default 3)")
    new.add_argument("--python", metavar="PATH", help="the interpreter that has torch (default: of the active environment)")
    new.add_argument("--deadline", type=_positive, metavar="SECONDS", help="kill it after this time (default 120)")
    new.add_argument(
        "--memory", type=_positive, metavar="GB", help="kill it when it needs more host memory (default: no bound)"
    )
    new.add_argument(
        "--target",
        metavar="NAME",
        help="what to capture in the program after --: FUNCTION or CLASS.METHOD of it, or FILE:…, pkg.mod:…",
    )
    new.add_argument("--continue", action="store_true", dest="continue_", help="let that program run on after the check")
    new.add_argument("--skip", type=_number, metavar="N", help="leave its first N calls alone")


def _add_recommend(commands: argparse._SubParsersAction[_Parser]) -> None:
    new = _add(
        commands,
        "recommend",
        "say which workflow fits, why, and the command that writes its program",
        "example: skill recommend                             (which questions decide)\n"
        "         skill recommend --training --host-reads\n"
        "         skill recommend --framework megatron --moe",
        _WRITING_CODES,
    )
    new.add_argument("--framework", metavar="NAME", help="pytorch, transformer-engine, megatron or megatron-bridge")
    _add_kind(new)
    new.add_argument("--shapes", metavar="KIND", help="static, dynamic, or buckets (a few sizes)")
    new.add_argument("--busy", type=_percent, metavar="PERCENT", help="how much of a step the GPU is busy, measured")
    for option, text in (
        ("--fp8", "layers compute in FP8"),
        ("--pp", "the model is a pipeline over several GPUs"),
        ("--moe", "tokens are sent to experts"),
        ("--decode", "it generates token by token with a KV cache"),
        ("--host-reads", "part of the step reads values on the host, or can otherwise not be captured"),
        ("--control", "the optimizer is to be in the graph, every step of the capture your own"),
        ("--no-compile", "torch.compile has to stay out"),
        ("--ddp", "several GPUs with DistributedDataParallel"),
        ("--fsdp", "several GPUs with FSDP2"),
    ):
        new.add_argument(option, action="store_true", help=text)
    new.add_argument("--amp", metavar="DTYPE", help="mixed precision, bf16 or fp16")
    new.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    new.set_defaults(run=_recommend)


def _add_scaffold(commands: argparse._SubParsersAction[_Parser]) -> None:
    new = _add(
        commands,
        "scaffold",
        "write a working program for a workflow, with its checks against eager",
        "example: skill scaffold                              (the workflows and options)\n"
        "         skill scaffold manual --training --amp bf16 > step.py\n"
        "         skill scaffold --workflow 3 --training --into step.py --verify\n"
        "         skill scaffold --verify step.py             (run its checks, and keep their receipt beside it)",
        _WRITING_CODES,
    )
    new.add_argument("name", nargs="?", metavar="WORKFLOW", help="name or number; without one all are listed")
    new.add_argument("--workflow", metavar="WORKFLOW", help="the same as an option")
    _add_kind(new)
    new.add_argument("--amp", choices=("bf16", "fp16"), help=_WISHES["amp"])
    new.add_argument(
        "--accumulate", nargs="?", type=_number, const=_MICROBATCHES, default=0, metavar="N", help=_WISHES["accumulate"]
    )
    for name, text in _WISHES.items():
        if name not in ("training", "amp", "accumulate"):
            new.add_argument(f"--{name}", action="store_true", help=text)
    new.add_argument(
        "--for", action="append", dest="versions", metavar="PKG==V", help="write for this version, for example torch==2.6"
    )
    new.add_argument("--into", metavar="FILE", help="write it to a file instead of stdout")
    new.add_argument("--force", action="store_true", help="replace that file")
    new.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    check = new.add_argument_group("on the GPU", "run the program's checks in your interpreter, in a process of its own")
    check.add_argument(
        "--verify", nargs="?", const="", metavar="FILE", help="verify what is written, or a program that is there"
    )
    check.add_argument("--python", metavar="PATH", help="the interpreter that has torch (default: of the active environment)")
    check.add_argument("--deadline", type=_positive, metavar="SECONDS", help=f"kill it after this time (default {_VERIFY})")
    check.add_argument("--processes", type=_count, metavar="N", help="how many (default: as the program says)")
    new.set_defaults(run=_scaffold)


def _add_kind(new: _Parser) -> None:
    kind = new.add_mutually_exclusive_group()
    kind.add_argument("--training", action="store_true", help="it trains")
    kind.add_argument("--inference", action="store_true", help="it only runs forward (the default)")


def _add_corpus(new: _Parser) -> None:
    new.add_argument("--corpus", type=Path, metavar="DIR", help="add the Markdown files of this folder")
    new.add_argument("--json", action="store_true", help="one line of JSON on stdout")


def _add_serve(commands: argparse._SubParsersAction[_Parser]) -> None:
    new = _add(
        commands,
        "serve",
        "run the MCP server on stdin and stdout",
        "example: claude mcp add cuda-graphs -- skill serve\n"
        "         claude mcp add cuda-graphs -- skill serve --python .venv/bin/python --allow .",
    )
    new.add_argument(
        "--allow",
        action="append",
        type=Path,
        metavar="FOLDER",
        help="offer the tool run_check, which runs code of this folder on the GPU",
    )
    new.add_argument("--python", metavar="PATH", help="the interpreter that has torch (default: of the active environment)")
    new.set_defaults(run=_serve, json=False)


def _add_completion(commands: argparse._SubParsersAction[_Parser]) -> None:
    new = _add(commands, "completion", "print a completion script for your shell", 'example: eval "$(skill completion bash)"')
    new.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    new.set_defaults(run=_completion, json=False)


def _search(args: argparse.Namespace) -> int:
    from cudagraph_skill.corpus import output as answers
    from cudagraph_skill.corpus import rank

    steps = _steps(args)
    question = rank.checked(_question(args.question))
    found = _index(args).search(question, args.limit, args.page, 10**9 if args.full else args.max_tokens)
    for typed, used in found.corrected.items() if found.hits else ():
        _say(f'no section has "{typed}": searched for "{used}"')
    if args.json:
        print(answers.answer_json(found, args.page, steps))
    elif found.hits:
        print(answers.answer(found, args.page, steps, _colour()))
    else:
        _say(answers.nothing_found(found, question, steps))
    return 0 if found.hits else 1


def _errors(args: argparse.Namespace) -> int:
    from cudagraph_skill.diagnosis import output as diagnosed
    from cudagraph_skill.diagnosis.entries import open_table
    from cudagraph_skill.diagnosis.log import decoded
    from cudagraph_skill.diagnosis.rank import diagnose

    text = decoded(_log(args))
    found = _known(lambda root: diagnose(text, open_table(root, _say)))
    if args.json:
        print(diagnosed.verdict_json(found, _steps(args)))
    elif found.diagnoses:
        print(diagnosed.verdict(found, _steps(args)))
    else:
        _say(
            f"{diagnosed.NOT_OURS}; {diagnosed.ASK_AGAIN}: {_program('errors')}"
            ' "with CUDA graphs: WHAT YOU DID AND WHAT YOU SAW"'
        )
    return 0 if found.diagnoses else 1


def _log(args: argparse.Namespace) -> bytes:
    """The bytes of the log, of a huge one both ends."""
    if args.file is not None and args.log:
        raise SkillError(f"skill errors: give either --file {args.file} or the text, not both")
    if "-" in args.log and len(args.log) > 1:
        raise SkillError("skill errors: - reads the log from standard input, so no text may stand beside it")
    typed = args.log[0] if len(args.log) == 1 and _is_file(args.log[0]) else None
    named = typed if args.file is None else args.file
    if named not in (None, "-"):
        try:
            with open(named, "rb") as file:  # noqa: PTH123 - Path("") would be this folder
                return _ends(file)
        except OSError as error:
            raise SkillError(f"--file {named}: {error.strerror}; name a log that can be read") from None
    if args.log and args.log != ["-"]:
        return " ".join(args.log).encode("utf-8", "surrogateescape")
    if sys.stdin is None:
        raise SkillError("the log is read from standard input, which is closed: give it as text or with --file")
    if sys.stdin.isatty():
        _say("paste the log, then press Ctrl-D")
    return _ends(sys.stdin.buffer)


def _is_file(text: str) -> bool:
    """Whether someone typed the name of a log instead of a log."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or NULs in it
        return False


def _ends(file: BinaryIO) -> bytes:
    """All of a file, or its two ends where it is longer than any log that a person would paste."""
    head, tail = file.read(_LOG_BYTES), b""
    more = file.read(_LOG_BYTES) if len(head) == _LOG_BYTES else b""  # asking a terminal again would need a second Ctrl-D
    while more:
        tail = (tail + more)[-_LOG_BYTES:]
        more = file.read(_LOG_BYTES)
    if tail:
        _say(f"only the first and the last {_LOG_BYTES >> 20} MiB of the log are read")
    return head + tail


def _explain(args: argparse.Namespace) -> int:
    from cudagraph_skill.corpus import load, lookup
    from cudagraph_skill.corpus import output as answers
    from cudagraph_skill.text import error_json

    found = lookup.explain(_index(args).sections(), args.name, _steps(args))
    if isinstance(found, lookup.Missing):
        _say(found)
        if args.json:
            print(error_json(found))
        return 1
    if args.json:
        print(answers.section_json(found[0]))
        return 0
    print(answers.section(found[0], _colour()))
    for other in found[1:]:
        print(f"also: {_steps(args).explain(load.names(other)[0])}")
    return 0


def _recommend(args: argparse.Namespace) -> int:
    from cudagraph_skill.scaffold import output as scaffolding
    from cudagraph_skill.scaffold import recommend, rules

    kind = True if args.training else False if args.inference else None
    given = {name: getattr(args, name) for name in recommend.Answers._fields if getattr(args, name) is not None}
    found = recommend.recommend(recommend.Answers(**{**given, "training": kind}))

    def spell(options: rules.Options) -> str:
        return f"{_program('scaffold')} {rules.spelled(options)}"

    if args.json:
        print(scaffolding.as_json(scaffolding.recommendation_data(found, spell)))
    else:
        print(scaffolding.recommendation(found, spell))
    return 0


def _scaffold(args: argparse.Namespace) -> int:
    """The program goes to stdout alone, or to a file; what is to be said of it to stderr."""
    from cudagraph_skill.scaffold import file as programs
    from cudagraph_skill.scaffold import output as scaffolding

    asked = _asked(args)
    if not asked["workflow"]:
        return _verify(args, args.verify) if args.verify else _listing(args)
    wanted = programs.options(asked)
    if args.into is not None:
        programs.writable(args.into, args.force)
    if args.verify is not None:
        from cudagraph_skill.scaffold import receipt

        receipt.place(Path(args.into))  # what stands in its way is said before anything is written
    versions = [each for text in args.versions or () for each in text.split(",")]
    program = programs.write(wanted, versions, args.python or "", args.into or "")
    if args.into is not None:
        programs.save(program.text, args.into, args.force)
    own = f"{_program('scaffold')} {program.command}{_by_python(args)}"
    step = f"{own} --into step.py" if args.into is None else _verifying(args)
    if args.verify is not None:
        return _verify_written(args, program, step)
    if args.json:
        print(scaffolding.as_json(scaffolding.program_data(program, args.into or "", step)))
        return 0
    beside = "\n".join([*scaffolding.notes(program, args.into or ""), f"next: {step}"])
    if args.into is None:
        print(program.text, end="", flush=True)
        _say(beside)
    else:
        print(beside)
    return 0


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """The workflow and options that were given, where they go together with the others."""
    if args.name and args.workflow:
        raise SkillError(
            f"skill scaffold: {args.name} and --workflow {args.workflow} both name a workflow: leave one of them out"
        )
    asked = {"workflow": args.name or args.workflow, **{name: getattr(args, name) for name in (*_WISHES, "inference")}}
    given = next((name for name in (*_WISHES, "inference", "versions", "into", "force") if getattr(args, name)), "")
    option = "for" if given == "versions" else given
    if given and args.verify and not asked["workflow"]:
        raise SkillError(
            f"skill scaffold: --verify {args.verify} runs a program that is there, as it stands: leave out --{option}"
        )
    if given not in ("", "force") and not asked["workflow"]:
        raise SkillError(
            f"skill scaffold: --{option} is given, but no workflow: `skill scaffold` lists them, `skill recommend` names one"
        )
    if args.force and args.into is None:
        raise SkillError("skill scaffold: --force replaces a file: name it with --into FILE")
    if args.verify and asked["workflow"]:
        raise SkillError(
            f"skill scaffold: --verify {args.verify} is for a program that is there; to write one and verify it: "
            f"--into {operand(args.verify)} --verify"
        )
    if args.verify == "" and args.into is None:
        raise SkillError(
            "skill scaffold: the receipt is kept beside the program: add --into FILE, or name one that is there, --verify FILE"
        )
    for name in ("deadline", "processes"):
        if getattr(args, name) is not None and args.verify is None:
            raise SkillError(f"skill scaffold: --{name} is for a run on the GPU: add --verify")
    return asked


def _listing(args: argparse.Namespace) -> int:
    from cudagraph_skill.scaffold import output as scaffolding

    step = _program("recommend")
    print(scaffolding.as_json(scaffolding.listing_data(_WISHES, step)) if args.json else scaffolding.listing(_WISHES, step))
    return 0


def _verifying(args: argparse.Namespace) -> str:
    """The command that verifies what was written."""
    return f"{_program('scaffold')} --verify {operand(args.into)}{_by_python(args)}"


def _by_python(args: argparse.Namespace) -> str:
    return f" --python {operand(args.python)}" if args.python else ""


def _verify_written(args: argparse.Namespace, program: Program, step: str) -> int:
    """Verify what this call has written; where that cannot begin, the file and the way on are named."""
    from cudagraph_skill.scaffold import output as scaffolding

    for note in scaffolding.notes(program, args.into):
        _say(note)
    try:
        return _verify(args, args.into, f"skill scaffold {program.command}", scaffolding.program_data(program, args.into, step))
    except SkillError as error:
        again = step if args.python or "--python" not in str(error) else f"{step} --python PYTHON"
        raise SkillError(f"{error}; {args.into} is written, next: {again}", error.exit_code) from None
    except KeyboardInterrupt:
        _say(f"{args.into} is written and not verified, next: {step}")
        raise


def _verify(args: argparse.Namespace, file: str, command: str = "", written: dict[str, Any] | None = None) -> int:
    """Run the checks of a program on the GPU; what lasts is told on stderr."""
    from cudagraph_skill.capture import interpreter
    from cudagraph_skill.scaffold import file as programs
    from cudagraph_skill.scaffold import output as scaffolding
    from cudagraph_skill.scaffold import receipt

    path = Path(file)
    processes = args.processes or programs.processes(receipt.program_text(path))
    with _Patient() as patient:
        found = receipt.verify(
            path,
            python=args.python or interpreter.environment_python(),
            deadline=args.deadline or _VERIFY,
            processes=processes,
            command=command,
            on_progress=patient.say,
        )
    try:
        kept = str(receipt.write(found, path))
    except SkillError as error:
        kept = ""
        _say(str(error))
    step = scaffolding.next_step(found, _steps(args))
    if args.json:
        print(scaffolding.as_json({**(written or {}), **scaffolding.data(found, step, kept)}))
    else:
        print(scaffolding.text(found, step, kept))
    return scaffolding.exit_code(found)


_STDIN = "<stdin>"


def _check(args: argparse.Namespace) -> int:
    from cudagraph_skill.capture import options as running
    from cudagraph_skill.check import output
    from cudagraph_skill.check.input.source import lines_of

    form = "json" if args.json else args.output_format
    if args.on_gpu:
        return _run(args, form)
    running.refuse_without_run(args)
    pasted = _pasted(args)
    report = _report(args, pasted)
    differences = ""
    if args.diff or args.fix:
        differences, report = _mended(args, report, pasted)
        if differences and form in ("full", "concise", "github"):
            print(differences)
    lines = cache(lambda path: lines_of(path, pasted if path == _STDIN else None))
    if form not in ("json", "sarif"):
        for note in report.notes:
            _say(note)
    if form in ("json", "sarif") or not (args.diff and differences):
        print(output.written(report, form, output.Reader(_steps(args), lines, _colour()), differences))
    return output.exit_code(report, {each.partition(":")[0] for each in args.targets})


def _run(args: argparse.Namespace, form: str) -> int:
    """Capture on the GPU; what lasts is told on stderr."""
    from cudagraph_skill.capture import options as running
    from cudagraph_skill.capture import output as examinations
    from cudagraph_skill.capture import session
    from cudagraph_skill.check import output
    from cudagraph_skill.check.input.source import lines_of

    requests = running.requests(args, args.program)
    reader = output.Reader(_steps(args), cache(lines_of), _colour())
    found = []
    with _Patient() as patient, session.Guests() as guests:
        for each in session.examine(requests, guests, session.Ears(patient.say, forward=_echo)):
            if each.verdict == "misuse" and len(requests) == 1:
                raise SkillError(each.said)
            found.append(each)
            if form in ("full", "concise", "github"):
                gap = "\n" if form == "full" and len(found) > 1 else ""
                print(gap + examinations.text(each, form, reader), flush=True)
    if form in ("json", "sarif"):
        print(examinations.written(found, form, reader))
    return examinations.exit_code(found)


class _Patient:
    """Tells on stderr what is being done, once it has lasted a second."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def __enter__(self) -> _Patient:
        return self

    def __exit__(self, *_: object) -> None:
        self.say("")

    def say(self, sentence: str) -> None:
        """From now on this is being done; "" for nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(1.0, _say, [f"{sentence} …"]) if sentence else None
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()


def _echo(data: bytes) -> None:
    """What a watched program prints, as it comes, beside our answer."""
    if sys.stderr is not None:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()


def _pasted(args: argparse.Namespace) -> bytes | None:
    """The source on standard input, if that is what is to be read; `args` then has the function that was named."""
    if not args.targets:
        raise SkillError("skill check: name what to read: FILE, FILE:FUNCTION, a folder, or - for standard input")
    if args.function is not None and len(args.targets) > 1:
        raise SkillError("skill check: --function is for one file; with several, write FILE:FUNCTION")
    if not any(each == "-" or each.startswith("-:") for each in args.targets):
        if args.function is not None:
            args.targets = [f"{args.targets[0]}:{args.function}"]
        return None
    if len(args.targets) > 1:
        raise SkillError("skill check: - reads the source from standard input, so no file may stand beside it")
    args.function = args.targets[0][2:] or args.function
    if args.fix:
        raise SkillError("skill check: --fix changes files, and standard input is none; --diff shows what it would change")
    if sys.stdin is None:
        raise SkillError("skill check: - reads the source from standard input, which is closed")
    if sys.stdin.isatty():
        _say("paste the source, then press Ctrl-D")
    return sys.stdin.buffer.read((16 << 20) + 1)


def _report(args: argparse.Namespace, pasted: bytes | None) -> Report:
    """What the checker says about all targets, each read with the settings of its own project."""
    from cudagraph_skill.check import check_paths, check_text
    from cudagraph_skill.check.input.settings import Options, settings
    from cudagraph_skill.check.input.source import decoded
    from cudagraph_skill.check.input.targets import split

    def options(path: str) -> Options:
        said = Options(tuple(args.select or ()), tuple(args.ignore or ()), tuple(args.exclude or ()), args.all)
        return settings(Path(path), said)

    if pasted is not None:
        return check_text(decoded(pasted).text, _STDIN, args.function, options("."))
    groups: dict[Options, list[str]] = {}
    for target in args.targets:
        groups.setdefault(options(split(target).path), []).append(target)
    reports = [check_paths(targets, each) for each, targets in groups.items()]
    return Report(*(list(chain.from_iterable(same)) for same in zip(*reports, strict=True)))


def _mended(args: argparse.Namespace, report: Report, pasted: bytes | None) -> tuple[str, Report]:
    """The diff of what is corrected mechanically, and, where that was written, what a second reading finds."""
    from cudagraph_skill.check import fixes

    notes: list[str] = []
    patches = fixes.patches(report, notes, {} if pasted is None else {_STDIN: pasted})
    for note in notes:
        _say(note)
    if args.fix:
        for each in patches:
            fixes.apply(each)
        report = _report(args, pasted) if patches else report
    places = sum(each.edits for each in patches)
    if not patches:
        _say("nothing here is corrected mechanically")
    elif args.fix:
        _say(f"corrected {places} place{'s' * (places != 1)} in {', '.join(each.path for each in patches)}")
    else:
        _say(f"{places} place{'s' * (places != 1)} would change; --fix instead of --diff changes the files")
    if any(each.left for each in patches):
        _say("some corrections overlap with these: run this again for them")
    return "\n".join(map(fixes.diff, patches)), report


def _steps(args: argparse.Namespace) -> Steps:
    """Next commands for the program and the options that this call was made with."""
    own = f" --corpus {operand(str(args.corpus))}" if getattr(args, "corpus", None) else ""
    again = " ".join(map(quoted, getattr(args, "question", ())))
    if args.command == "search":
        again += f" --limit {args.limit}" if args.limit != 3 else ""
        again += f" --max-tokens {args.max_tokens}" if args.max_tokens else ""
        again += " --full" if args.full else ""
    return Steps(
        read=lambda ref: f"{_program('read')} {operand(ref)}{own}",
        turn=lambda page: f"{_program('search')} {again} --page {page}{own}",
        ask=lambda question: f"{_program('search')} {quoted(question)}",
        explain=lambda name: f"{_program('explain')} {quoted(name)}",
        check=lambda target: f"{_program('check')} {operand(target)}",
    )


def _program(command: str) -> str:
    """How to call a command the way this one was called: installed, as a module, or by a launcher."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("cudagraph_skill", "__main__.py"):
        return f"python -m cudagraph_skill {command}"
    if called.suffix == ".py" and (called.parent / "cudagraph_skill").is_dir():
        return f"python {operand(f'{called.with_name(command)}.py')}"
    if called.name == "skill" and _first_on_path("skill") != sys.argv[0]:  # procps has a program of that name
        return f"{quoted(sys.argv[0])} {command}"
    return f"skill {command}"


def _as_called(sentence: str) -> str:
    """The commands in it, which stand in backticks, as one can type them here."""
    return re.sub(r"`skill ([a-z]+)", lambda found: f"`{_program(found[1])}", sentence)


def _first_on_path(name: str) -> str:
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return next((path for folder in folders if os.access(path := os.path.join(folder, name), os.X_OK)), "")  # noqa: PTH118


def _question(parts: list[str]) -> str:
    if parts == ["-"]:
        if sys.stdin is None:
            raise SkillError("- reads the question from standard input, which is closed")
        return sys.stdin.buffer.read(1 << 22).decode("utf-8", "replace")
    return " ".join(parts)


def _index(args: argparse.Namespace) -> Index:
    def opened(root: Path) -> Index:
        from cudagraph_skill.corpus.index import open_index

        return open_index(root, args.corpus, _say)

    return _known(opened)


def _known(opened: Callable[[Path], _T]) -> _T:
    """What `opened` makes of the skill's files, or one sentence about the package that is missing in a bare clone."""
    from cudagraph_skill.paths import skill_root

    root = skill_root()
    try:
        return opened(root)
    except ModuleNotFoundError as error:
        raise SkillError(
            f"this needs the package {error.name}, which {sys.executable} does not have: run "
            f"`pip install whoosh markdown-it-py pyyaml`, or grep -rni 'WORD' {quoted(str(root / 'references'))}",
            3,
        ) from None


def _read(args: argparse.Namespace) -> int:
    from cudagraph_skill.corpus import lookup
    from cudagraph_skill.corpus import output as answers
    from cudagraph_skill.text import error_json

    found = lookup.find(_index(args).sections(), args.ref, _steps(args))
    if isinstance(found, lookup.Missing):
        sentence = str(found)
        _say(sentence)
        if args.json:
            print(error_json(sentence))
        return 1
    if len(found) == 1:
        print(answers.section_json(found[0]) if args.json else answers.section(found[0], _colour()))
    else:
        print(answers.contents_json(found) if args.json else answers.contents(found, _steps(args)))
    return 0


def _serve(args: argparse.Namespace) -> int:
    try:
        from cudagraph_skill_server import app
    except ModuleNotFoundError as error:
        missing = f"the server needs the package {error.name}, which {sys.executable} does not have"
        raise SkillError(f"{missing}: run `pip install whoosh markdown-it-py pyyaml 'mcp>=2.3,<3'`", 3) from None
    app.serve(args.python, args.allow)
    return 0


def _completion(args: argparse.Namespace) -> int:
    import shtab

    print(shtab.complete(parser(), args.shell))
    return 0


def _colour() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _say(sentence: str) -> None:
    """One message on stderr. What a user typed may stand in it, so nothing in it can steer the terminal."""
    if sys.stderr is None:  # print() would take stdout instead
        return
    try:
        print("\n".join(map(printable, sentence.split("\n"))), file=sys.stderr)
    except OSError:  # a full disk, or a reader that has gone: there is nobody to tell
        _leave_quietly(sys.stderr)


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    top = parser()
    commands: dict[str, _Parser] = top._subparsers._group_actions[0].choices  # type: ignore  # noqa: SLF001, PGH003 - no public way
    if argv and not argv[0].startswith("-") and argv[0] not in commands:
        near = difflib.get_close_matches(argv[0], commands, 1)
        hint = f"did you mean `skill {near[0]}`?" if near else f'to ask, type: skill search "{argv[0]}"'
        raise SkillError(f"skill: there is no command `{argv[0]}`; {hint}")
    argv, program = _divided(argv)
    args, unknown = top.parse_known_args(argv)
    if program is not None:
        args.program = program
    if unknown:
        _refuse(unknown, args, commands[args.command])
    return args


def _divided(argv: Sequence[str]) -> tuple[Sequence[str], list[str] | None]:
    """Our arguments, and the command after `--` where a run was asked for, which is not ours to parse."""
    if list(argv[:1]) != ["check"] or "--" not in argv or "--run" not in argv[: argv.index("--")]:
        return argv, None
    end = argv.index("--")
    return argv[:end], list(argv[end + 1 :])


def _refuse(unknown: list[str], args: argparse.Namespace, command: _Parser) -> None:
    """An unknown option is misuse, except that one may search for a flag of some other program by its name."""
    options = list(command._option_string_actions)  # noqa: SLF001 - no public way
    near = difflib.get_close_matches(unknown[0].partition("=")[0], options, 1, 0.75)
    if args.command == "search" and not near:
        args.question = [*args.question, *unknown]
        return
    if args.command == "check" and unknown[0].startswith("-:"):  # standard input and a function of it
        args.targets = [*args.targets, *unknown]
        return
    if not unknown[0].startswith("-"):
        raise SkillError(f"skill {args.command}: `{unknown[0]}` is one argument too many; see `skill {args.command} --help`")
    hint = f"did you mean {near[0]}?" if near else f"see `skill {args.command} --help`"
    raise SkillError(f"skill {args.command}: there is no option {unknown[0]}; {hint}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see EXIT_CODES); never a traceback for what a user can cause."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        return _answered(arguments)
    except BrokenPipeError:  # the reader (head, less) has gone: nothing more to say
        _leave_quietly(sys.stdout)
        return 0
    except OSError as error:
        _say(f"{error.strerror}: {error.filename or 'standard output'}")
        _leave_quietly(sys.stdout)
        return 3
    except KeyboardInterrupt:
        return 130


def launched(command: str) -> int:
    """What a launcher does: one command, with the arguments of the launcher."""
    return main([command, *sys.argv[1:]])


def _answered(arguments: Sequence[str]) -> int:
    """Run one command; a refusal goes to stderr, and to stdout for those who asked for JSON."""
    try:
        args = _parsed(arguments)
        run: Callable[[argparse.Namespace], int] | None = getattr(args, "run", None)
        if run is None:
            parser().print_help()
            return 0
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a terminal that knows ASCII only still gets the answer
        return run(args)
    except SkillError as error:
        said = _as_called(str(error))
        _say(said)
        ours, _ = _divided(arguments)
        if "--json" in ours or "--output-format=json" in ours or ("--output-format", "json") in pairwise(ours):
            from cudagraph_skill.text import error_json

            print(error_json(said))
        return error.exit_code
    finally:  # also after --help; what cannot be written is seen here, not by Python at its exit
        if sys.stdout:
            sys.stdout.flush()


def _leave_quietly(stream: TextIO | None) -> None:
    """What is left in the buffer cannot be written; Python would complain about it at exit."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
