"""`skill check`: find lines that break a capture; with --run, capture on the GPU."""

from __future__ import annotations

import contextlib
import sys
import time
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import Parser, add_command, count, number, positive
from cudagraph_skill.cli.terminal import Progress, colour, echo, say
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from cudagraph_skill.check.findings import Report

_STDIN = "<stdin>"
_TEXT_FORMS = ("full", "concise", "github")
_POLL_SECONDS = 0.3
_UNREAD = 4  # the exit code for captured code that was not read in full
_LACKING = 3  # exit code


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill check`."""
    new = add_command(
        commands,
        "check",
        "find lines that break capture or silently corrupt replay",
        "example: skill check train.py:step\n"
        "         skill check src/ --ignore CG1\n"
        "         skill check --run train.py:step --shape 8x16      (captures it on the GPU, replays, compares with eager)\n"
        "         skill check --run --target Trainer.step -- python train.py --steps 20\n"
        "         skill check --run --nproc 2 --target step -- python train_ddp.py       (on two GPUs, under torchrun)\n"
        "         git show HEAD:model.py | skill check - --function Model.forward\n\n"
        "a comment allows a line: `# cg: allow CG201 - reason`, at its end or alone above it; on a `def` the whole function",
        "exit codes: 0 no errors or warnings, 1 errors or warnings, 2 the command was not understood, or a file is not\n"
        "Python, or (--run) the code fails without a graph, 3 this machine lacks something it needs, 4 nothing found, but\n"
        "captured code was not read in full, or (--run) eager runs differ too much to compare with",
    )
    new.add_argument(
        "targets",
        nargs="*",
        metavar="FILE[:FUNCTION]|FOLDER",
        help="a file, a function in it, or a folder; - reads source from stdin",
    )
    new.add_argument("--function", metavar="NAME", help="the captured function or method, as NAME or CLASS.NAME")
    new.add_argument(
        "--all",
        action="store_true",
        help="treat as captured every forward(), function with tensor arguments, and method of a module that nothing calls",
    )
    new.add_argument(
        "--select", action="append", metavar="IDS", help="report these hazards only, for example CG2,CG301, or likely"
    )
    new.add_argument(
        "--ignore",
        action="append",
        metavar="IDS",
        help="do not report these hazards; likely: those that only a run can confirm",
    )
    new.add_argument("--exclude", action="append", metavar="GLOB", help="leave out files and folders of this name or path")
    new.add_argument(
        "--output-format", choices=("full", "concise", "json", "github", "sarif"), default="full", help="default: full"
    )
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    change = new.add_mutually_exclusive_group()
    change.add_argument("--diff", action="store_true", help="show what --fix would change")
    change.add_argument("--fix", action="store_true", help="apply automatic fixes in place")
    new.add_argument("--statistics", action="store_true", help="print how often each hazard was found")
    new.add_argument(
        "--explain-finding",
        action="store_true",
        help="print what each finding rests on: which values, what they were taken for, where they came from",
    )
    new.add_argument(
        "--allow-unread",
        action="store_true",
        help="end with 0, not 4, where nothing was found and captured code was not read in full",
    )
    new.add_argument("--watch", action="store_true", help="check again whenever a named file changes, until Ctrl-C")
    _add_run(new)
    new.set_defaults(run=run, program=None)


def _add_run(check: Parser) -> None:
    """Add the options of a capture on the GPU."""
    new = check.add_argument_group("on the GPU", "run the code with your interpreter, in a child process")
    new.add_argument(
        "--run", action="store_true", dest="on_gpu", help="capture FILE:FUNCTION, replay it, compare it with eager"
    )
    add_code(new, python="; without --run: read its packages")
    new.add_argument(
        "--nproc",
        type=count,
        metavar="N",
        help="run the program under torchrun with N ranks, one on each GPU, and check that call on all of them",
    )
    new.add_argument("--continue", action="store_true", dest="continue_", help="let the program continue after the check")


def add_code(new: argparse._ActionsContainer, python: str = "") -> None:
    """Add the options that say which code runs on the GPU, and how; `python` adds to the help of that option."""
    new.add_argument("--inputs", metavar="NAME", help="the function of the file that returns the arguments")
    new.add_argument(
        "--make", metavar="NAME", help="the function of the file that returns a dict with fn and inputs (default: make)"
    )
    new.add_argument(
        "--shape",
        action="append",
        metavar="SPEC",
        help="the shape of an argument: 8x128, 8x128:bf16, 8x128:int64<50257, or a number: =0.5; repeat for each argument",
    )
    new.add_argument("--warmup", type=number, metavar="N", help="calls before the capture (default 3)")
    new.add_argument(
        "--python",
        metavar="PATH",
        help=f"the interpreter with torch (default: that of the active environment){python}",
    )
    new.add_argument("--deadline", type=positive, metavar="SECONDS", help="stop the run after this time (default 120)")
    new.add_argument(
        "--memory", type=positive, metavar="GB", help="stop the run when it needs more host memory (default: no bound)"
    )
    new.add_argument(
        "--target",
        metavar="NAME",
        help="the function to capture in the program after --: FUNCTION or CLASS.METHOD of it, or FILE:…, pkg.mod:…",
    )
    new.add_argument("--skip", type=number, metavar="N", help="ignore the first N calls")


def run(args: argparse.Namespace) -> int:
    """Print the findings of a check; return its exit code."""
    from cudagraph_skill.capture import options

    form = "json" if args.json else args.output_format
    if args.on_gpu:
        with named_verdict():
            return _captured(args, form)
    options.refuse_without_run(args)
    return _watch(args, form) if args.watch else _check(args, form)


def _check(args: argparse.Namespace, form: str) -> int:
    """Check once."""
    from cudagraph_skill.check import output
    from cudagraph_skill.check.input.source import lines_of

    pasted = _pasted(args)
    report = _report(args, pasted)
    difference = ""
    if args.diff or args.fix:
        difference, report = _fixed(args, report, pasted)
        if difference and form in _TEXT_FORMS:
            print(difference)
    lines = cache(lambda path: lines_of(path, pasted if path == _STDIN else None))
    if form in _TEXT_FORMS:
        for note in report.notes:
            say(note)
    if args.statistics:
        print(output.statistics(report))
    elif form not in _TEXT_FORMS or not (args.diff and difference):
        reader = output.Reader(next_step.steps(args), lines, colour(), fix="" if args.fix else "--fix", every=args.all)
        print(output.written(report, form, reader, difference))
    code = output.exit_code(report, {target.partition(":")[0] for target in args.targets})
    return 0 if args.allow_unread and code == _UNREAD else code


def _watch(args: argparse.Namespace, form: str) -> int:
    """Check again whenever a named file changes, until Ctrl-C."""
    if args.fix or any(target.startswith("-") for target in args.targets):
        raise SkillError("skill check: --watch checks files again when they change: leave out --fix and standard input")
    while True:
        stamps = _stamps(args)
        _check(args, form)
        say("watching the named files; press Ctrl-C to stop")
        while (now := _stamps(args)) == stamps or not now:
            time.sleep(_POLL_SECONDS)


def _stamps(args: argparse.Namespace) -> dict[str, int]:
    """Return the time of the last change of each file to check; nothing while an editor is replacing one."""
    from cudagraph_skill.check.input.settings import Options
    from cudagraph_skill.check.input.targets import expand

    try:
        targets = expand(args.targets, Options(exclude=tuple(args.exclude or ())))
        return {target.path: Path(target.path).stat().st_mtime_ns for target in targets}
    except (OSError, SkillError):
        return {}


@contextlib.contextmanager
def named_verdict() -> Iterator[None]:
    """Give the error of a run that could not be made a verdict, for JSON."""
    try:
        yield
    except SkillError as error:
        error.fields["verdict"] = "lacking" if error.exit_code == _LACKING else "misuse"
        raise


def _captured(args: argparse.Namespace, form: str) -> int:
    """Capture on the GPU, with progress on stderr."""
    from cudagraph_skill.capture import options, session
    from cudagraph_skill.capture.output import exit_code, text, written
    from cudagraph_skill.check.input.source import lines_of
    from cudagraph_skill.check.output import Reader

    requests = options.requests(args, args.program)
    reader = Reader(next_step.steps(args), cache(lines_of), colour())
    results = []
    with Progress() as progress, session.Guests() as guests:
        for result in session.examine(requests, guests, session.Listener(progress.say, forward=echo)):
            if result.verdict == "misuse" and len(requests) == 1:
                raise SkillError(result.said)
            results.append(result)
            if form in ("full", "concise", "github"):
                gap = "\n" if form == "full" and len(results) > 1 else ""
                print(gap + text(result, form, reader), flush=True)
    if form in ("json", "sarif"):
        print(written(results, form, reader))
    return exit_code(results)


def _pasted(args: argparse.Namespace) -> bytes | None:
    """Return the source on standard input, if that is the target; move the function that was named into `args`."""
    if not args.targets:
        raise SkillError("skill check: name what to read: FILE, FILE:FUNCTION, a folder, or - for standard input")
    if args.function is not None and len(args.targets) > 1:
        raise SkillError("skill check: --function is for one file; with several, write FILE:FUNCTION")
    if not any(target == "-" or target.startswith("-:") for target in args.targets):
        if args.function is not None:
            args.targets = [f"{args.targets[0]}:{args.function}"]
        return None
    if len(args.targets) > 1:
        raise SkillError("skill check: - reads the source from standard input, so give no other file")
    args.function = args.targets[0][2:] or args.function
    if args.fix:
        raise SkillError("skill check: --fix changes files, and standard input is none; --diff shows what it would change")
    if sys.stdin is None:
        raise SkillError("skill check: - reads the source from standard input, which is closed")
    if sys.stdin.isatty():
        say("paste the source, then press Ctrl-D")
    return sys.stdin.buffer.read((16 << 20) + 1)


def _report(args: argparse.Namespace, pasted: bytes | None) -> Report:
    """Check all targets, each with the settings of its own project."""
    from cudagraph_skill.capture.interpreter import interpreter
    from cudagraph_skill.check import check_paths, check_text
    from cudagraph_skill.check.findings import Report
    from cudagraph_skill.check.input.packages import folders
    from cudagraph_skill.check.input.settings import Options, settings
    from cudagraph_skill.check.input.source import decoded
    from cudagraph_skill.check.input.targets import split

    python = interpreter(args.python) if args.python else ""
    if python:
        folders(python)  # raises where there are none

    def options(path: str) -> Options:
        ids = tuple(args.select or ()), tuple(args.ignore or ()), tuple(args.exclude or ())
        flags = Options(*ids, every=args.all, explain=args.explain_finding, python=python)
        return settings(Path(path), flags)

    if pasted is not None:
        return check_text(decoded(pasted).text, _STDIN, args.function, options("."))
    groups: dict[Options, list[str]] = {}
    for target in args.targets:
        groups.setdefault(options(split(target).path), []).append(target)
    reports = [check_paths(targets, group) for group, targets in groups.items()]
    return Report(*(list(chain.from_iterable(same)) for same in zip(*reports, strict=True)))


def _fixed(args: argparse.Namespace, report: Report, pasted: bytes | None) -> tuple[str, Report]:
    """Return the diff of the fixes and, if they were written, the report of a second check."""
    from cudagraph_skill.check import fixes
    from cudagraph_skill.check.input.targets import split

    notes: list[str] = []
    named = [split(target).path for target in args.targets] if pasted is None else []
    patches = fixes.patches(report, notes, named, {} if pasted is None else {_STDIN: pasted})
    for note in notes:
        say(note)
    if args.fix:
        for patch in patches:
            fixes.apply(patch)
        report = _report(args, pasted) if patches else report
    places = sum(patch.edits for patch in patches)
    if not patches:
        say("no automatic fix applies")
    elif args.fix:
        say(f"fixed {places} place{'s' * (places != 1)} in {', '.join(patch.path for patch in patches)}")
    else:
        say(f"{places} place{'s' * (places != 1)} would change; run with --fix to apply")
    if any(patch.left for patch in patches):
        say("some fixes overlap: run again to apply the rest")
    return "\n".join(map(fixes.diff, patches)), report
