"""`skill errors`: find the cause and the fix of an error, a log or a symptom."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import Parser, add_command
from cudagraph_skill.cli.terminal import say
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import operand, quoted

if TYPE_CHECKING:
    import argparse
    from typing import BinaryIO

_FILE = re.compile(r"\S+\.(?:log|txt|out|err|py|ipynb|json)", re.IGNORECASE)  # what no error text looks like
_SYMPTOM = 1000  # characters in which a language shows
_LOG_BYTES = 16 << 20  # at each end of a log


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill errors`."""
    new = add_command(
        commands,
        "errors",
        "name the cause and the fix of an error, a log or a symptom",
        "example: python train.py 2>&1 | skill errors\n"
        '         skill errors "capturing stream has unjoined work"\n'
        "         skill errors --file slurm-1234.out",
    )
    new.add_argument("log", nargs="*", help="the error text, or what goes wrong in your words; - or nothing reads stdin")
    new.add_argument("--file", metavar="PATH", help="read the log from a file, or the outputs of a notebook")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    new.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the likely causes of a log; return 1 if it shows no CUDA-graph error."""
    from cudagraph_skill.corpus.language import english
    from cudagraph_skill.diagnosis import output as diagnosed
    from cudagraph_skill.diagnosis.entries import open_table
    from cudagraph_skill.diagnosis.log import decoded
    from cudagraph_skill.diagnosis.rank import diagnose
    from cudagraph_skill.paths import skill_root

    file = _file(args)
    text = decoded(_log(args, file), file or "")
    verdict = diagnose(text, open_table(skill_root(), say))
    if args.json:
        print(diagnosed.verdict_json(verdict, next_step.steps(args)))
    elif verdict.diagnoses:
        print(diagnosed.verdict(verdict, next_step.steps(args), text))
    else:
        more = f"; what a number or a name means: {next_step.program('explain')} {quoted(text)}" if text.isalnum() else ""
        if english(text[:_SYMPTOM], lambda _: False) is not None:
            more = "; the index of errors is in English: describe what goes wrong in English"
        if file is not None and file.lower().endswith(".ipynb"):
            more = f"; only the outputs were read, the cells are read by {next_step.program('check')} {operand(file)}"
        say(
            f"{diagnosed.NOT_OURS}. {diagnosed.ASK_AGAIN}: {next_step.program('errors')}"
            f' "with CUDA graphs: WHAT YOU DID AND WHAT YOU SAW"{more}'
        )
    return 0 if verdict.diagnoses else 1


def _file(args: argparse.Namespace) -> str | None:
    """Return the name of the file that was given as the log; None for text and for standard input."""
    if args.file is not None and args.log:
        raise SkillError(f"skill errors: give either --file {args.file} or the text, not both")
    if "-" in args.log and len(args.log) > 1:
        raise SkillError("skill errors: - reads the log from standard input, so give no other text")
    typed = args.log[0] if len(args.log) == 1 and _is_file(args.log[0]) else None
    named = typed if args.file is None else args.file
    if named is None and len(args.log) == 1 and _FILE.fullmatch(args.log[0]):
        raise SkillError(f"skill errors: there is no file {args.log[0]}: name a log that can be read, or give the error text")
    return None if named == "-" else named


def _log(args: argparse.Namespace, file: str | None) -> bytes:
    """Return the bytes of the log; of a huge one, both ends."""
    if file is not None:
        try:
            with open(file, "rb") as opened:  # noqa: PTH123 - Path("") would be this folder
                return _ends(opened)
        except OSError as error:
            raise SkillError(f"--file {file}: {error.strerror}; name a log that can be read") from None
    if args.log and args.log != ["-"]:
        return " ".join(args.log).encode("utf-8", "surrogateescape")
    if sys.stdin is None:
        raise SkillError("the log is read from standard input, which is closed: give it as text or with --file")
    if sys.stdin.isatty():
        say("paste the log, then press Ctrl-D")
    return _ends(sys.stdin.buffer)


def _is_file(text: str) -> bool:
    """Return whether someone typed the name of a log instead of a log."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or NULs in it
        return False


def _ends(file: BinaryIO) -> bytes:
    """Read a file, or its two ends if it is longer than any log that a person would paste."""
    head, tail = file.read(_LOG_BYTES), b""
    more = file.read(_LOG_BYTES) if len(head) == _LOG_BYTES else b""  # asking a terminal again would need a second Ctrl-D
    while more:
        tail = (tail + more)[-_LOG_BYTES:]
        more = file.read(_LOG_BYTES)
    if tail:
        say(f"only the first and the last {_LOG_BYTES >> 20} MiB of the log are read")
    return head + tail
