"""`skill decide`: whether a graph pays for a step, from a trace of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import add_command
from cudagraph_skill.text import as_json

if TYPE_CHECKING:
    import argparse

    from cudagraph_skill.cli.arguments import Parser


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill decide`."""
    new = add_command(
        commands,
        "decide",
        "say whether a graph pays for a step, from a trace of it",
        "example: skill decide --trace trace.json.gz\n"
        "         skill decide --trace report.sqlite --step train_step\n\n"
        "reads a trace that was made on any machine: torch.profiler's export_chrome_trace, or nsys export --type sqlite.\n"
        "Prints what a step takes now, what it would take as one graph (predicted), what keeps the GPU waiting, and which\n"
        "calls a capture would refuse. Needs neither a GPU nor torch. To measure a callable on this GPU: skill map",
        "exit codes: 0 a graph pays, or the step is in one already, 1 it does not, or no step is marked, 2 the command or\n"
        "the trace was not understood",
    )
    new.add_argument("--trace", type=Path, required=True, metavar="FILE", help="the trace: .json, .json.gz or .sqlite")
    new.add_argument("--step", default="", metavar="NAME", help="the ranges whose names begin so (default: ProfilerStep#)")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    new.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the decision; return its exit code."""
    from cudagraph_skill import decide
    from cudagraph_skill.decide import output

    decision = decide.decide(decide.measured(decide.read(args.trace), args.step))
    steps = next_step.steps(args)
    print(as_json(output.data(decision, steps)) if args.json else output.text(decision, steps))
    return output.exit_code(decision)
