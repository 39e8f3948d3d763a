"""`skill map`: which parts of a call a CUDA graph could hold, and what each would bring."""

from __future__ import annotations

from argparse import SUPPRESS
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import add_command, count
from cudagraph_skill.cli.check import add_code, named_verdict
from cudagraph_skill.cli.terminal import Progress, colour, echo
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cudagraph_skill.capture.request import Request
    from cudagraph_skill.capture.result import CaptureResult
    from cudagraph_skill.capture.session import Guests, Listener
    from cudagraph_skill.cli.arguments import Parser
    from cudagraph_skill.report.page import Page

    Run = Callable[[Sequence[Request], Guests, Listener], Iterable[CaptureResult]]


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill map`."""
    new = add_command(
        commands,
        "map",
        "measure the parts of a call on the GPU, and find those that a graph can hold",
        "example: skill map train.py:step --inputs batch\n"
        "         skill map --target Trainer.step -- python train.py --steps 20\n\n"
        "prints each module that the call runs, its backward passes and optimizer steps: the share of GPU time, launches\n"
        "and CPU time; whether it captures, or the line that prevents it. Then the time with graphs (predicted), what to\n"
        "fix first, and what was not tried. The call and its parts run many times",
        "exit codes: 0 replays of the whole call equal eager, 1 it fails at capture or a replay is wrong, 2 the command was\n"
        "not understood, or the code fails without a graph, 3 this machine lacks something it needs, 4 eager runs differ too\n"
        "much to compare with",
    )
    new.add_argument("targets", nargs="*", metavar="FILE[:FUNCTION]", help="the callable; FILE alone needs make() in it")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    add_html(new)
    add_code(new)
    new.add_argument("--nproc", type=count, help=SUPPRESS)  # refused in words
    new.set_defaults(run=run, program=None, function=None, continue_=False)


def run(args: argparse.Namespace) -> int:
    """Print the map of each callable; return its exit code."""
    from cudagraph_skill.capture import session
    from cudagraph_skill.capture.map_output import exit_code, written
    from cudagraph_skill.check.input.source import lines_of
    from cudagraph_skill.check.output import Reader

    with named_verdict():
        refuse_html(args, "map")
        results = measured(args, "map", session.mapped)
    reader = Reader(next_step.steps(args), cache(lines_of), colour())
    print(written(results, "json" if args.json else "full", reader))
    if args.html:
        from cudagraph_skill.report import of_map

        write_html(args, "map", of_map.page(results[0], reader.steps))
    return exit_code(results)


def add_html(new: Parser) -> None:
    """Add the option for a report."""
    new.add_argument("--html", metavar="FILE", help="write a report, too: one HTML file that loads and runs nothing")
    new.add_argument("--force", action="store_true", help="replace a file that is there")


def refuse_html(args: argparse.Namespace, command: str) -> None:
    """Raise if the report cannot be written, before the work."""
    from cudagraph_skill.report import file

    if args.html is None:
        return
    if len(args.targets) > 1:
        raise SkillError(f"skill {command}: --html is for one callable: leave the others out")
    file.refuse(f"skill {command}: --html", args.html, ".html", args.force, getattr(args, "trace", None))


def write_html(args: argparse.Namespace, command: str, page: Page) -> None:
    """Write the report."""
    from cudagraph_skill.report import file, html

    file.save(html.rendered(page), f"skill {command}: --html", args.html, ".html", args.force)


def measured(args: argparse.Namespace, command: str, run: Run) -> list[CaptureResult]:
    """Let `run` measure the callables of a command on the GPU, with progress on stderr.

    Raises:
        SkillError: the arguments do not fit together, or the one callable is misused.
    """
    with _in_words_of(command):
        return _measured(args, command, run)


def requested(args: argparse.Namespace, command: str) -> list[Request]:
    """Return what a command is to run.

    Raises:
        SkillError: the arguments do not fit together.
    """
    with _in_words_of(command):
        return _requested(args, command)


@contextmanager
def _in_words_of(command: str) -> Iterator[None]:
    """Let errors of the arguments, which `skill check --run` has too, name this command."""
    try:
        yield
    except SkillError as error:
        said = str(error).replace("skill check: --run", f"skill {command}").replace("skill check:", f"skill {command}:")
        raise SkillError(said, error.exit_code) from None


def _requested(args: argparse.Namespace, command: str) -> list[Request]:
    from cudagraph_skill.capture import options

    if args.nproc or options.starts_ranks(args.program or ()):
        raise SkillError(
            f"skill {command}: it measures one process: run the program without a launcher such as torchrun, and without "
            "--nproc; `skill check --run --nproc N` checks several ranks"
        )
    return options.requests(args, args.program)


def _measured(args: argparse.Namespace, command: str, run: Run) -> list[CaptureResult]:
    from cudagraph_skill.capture import session

    requests = _requested(args, command)
    with Progress() as progress, session.Guests() as guests:
        results = list(run(requests, guests, session.Listener(progress.say, forward=echo)))
    if len(requests) == 1 and results[0].verdict == "misuse":
        raise SkillError(results[0].said)
    return results
