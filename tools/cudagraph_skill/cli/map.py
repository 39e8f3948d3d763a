"""`skill map`: which parts of a call a CUDA graph could hold, and what each would bring."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import add_command
from cudagraph_skill.cli.check import add_code, named_verdict
from cudagraph_skill.cli.terminal import Progress, colour, echo
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    import argparse

    from cudagraph_skill.cli.arguments import Parser


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill map`."""
    new = add_command(
        commands,
        "map",
        "measure the parts of a call on the GPU, and say which a graph could hold",
        "example: skill map train.py:step --inputs batch\n"
        "         skill map --target Trainer.step -- python train.py --steps 20\n\n"
        "for each module that the call calls, its backward passes and optimizer steps: the share of the GPU's time, of\n"
        "launches and of the CPU's time; whether it captures, or which line prevents that. Then what graphs would bring\n"
        "(predicted), and what to mend first",
        "exit codes: those of `skill check --run` for the whole call: 0 it captures, 1 it does not, 2 the command was not\n"
        "understood, or the code fails without a graph, 3 this machine lacks something it needs, 4 eager runs differ too much",
    )
    new.add_argument("targets", nargs="*", metavar="FILE[:FUNCTION]", help="the callable; FILE alone needs make() in it")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    add_code(new)
    new.set_defaults(run=run, program=None, function=None, continue_=False)


def run(args: argparse.Namespace) -> int:
    """Print the map of each callable; return its exit code."""
    with named_verdict():
        try:
            return _mapped(args)
        except SkillError as error:  # of the arguments, which `skill check --run` has too
            said = str(error).replace("skill check: --run", "skill map").replace("skill check:", "skill map:")
            raise SkillError(said, error.exit_code) from None


def _mapped(args: argparse.Namespace) -> int:
    from cudagraph_skill.capture import options, session
    from cudagraph_skill.capture.map_output import exit_code, written
    from cudagraph_skill.check.input.source import lines_of
    from cudagraph_skill.check.output import Reader

    requests = [request._replace(map=True) for request in options.requests(args, args.program)]
    if any(request.launch for request in requests):
        raise SkillError("skill map: it measures one process: give the python command, without torchrun and --nproc")
    reader = Reader(next_step.steps(args), cache(lines_of), colour())
    with Progress() as progress, session.Guests() as guests:
        results = list(session.examine(requests, guests, session.Listener(progress.say, forward=echo)))
    print(written(results, "json" if args.json else "full", reader))
    return exit_code(results)
