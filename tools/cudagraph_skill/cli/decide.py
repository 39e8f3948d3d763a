"""`skill decide`: whether a graph pays for a call, measured on this GPU, or for a step, from a trace of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import add_command
from cudagraph_skill.cli.check import add_code, named_verdict
from cudagraph_skill.cli.map import add_html, measured, refuse_html, write_html
from cudagraph_skill.cli.terminal import colour
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import as_json

if TYPE_CHECKING:
    import argparse

    from cudagraph_skill.cli.arguments import Parser
    from cudagraph_skill.report.page import Page

_TRACES = (".json", ".json.gz", ".sqlite")  # ends of their names
_OF_A_CALL = ("inputs", "make", "shape", "warmup", "python", "deadline", "memory", "target", "skip")


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill decide`."""
    new = add_command(
        commands,
        "decide",
        "say whether a graph pays: measure a call on the GPU, or read a trace",
        "example: skill decide train.py:step --inputs batch\n"
        "         skill decide --target Trainer.step -- python train.py --steps 20\n"
        "         skill decide --trace trace.json.gz --step train_step\n\n"
        "a callable is timed on this GPU, eager and, if `skill check --run` finds replays right, as a graph; its kernels are\n"
        "profiled after that, and its work counted. Prints what it takes now, as a graph (measured, or predicted), and the\n"
        "limit: the time below which this GPU cannot do the work. The call runs many times.\n"
        "--trace reads a trace that was made on any machine, and needs neither a GPU nor torch: torch.profiler's\n"
        "export_chrome_trace, or nsys export --type sqlite",
        "exit codes: 0 a graph pays, or the step is in one already, 1 it does not, the call does not capture yet, or no step\n"
        "is marked, 2 the command or the trace was not understood, or the code fails without a graph, 3 this machine lacks\n"
        "something it needs, 4 eager runs differ too much to compare with",
    )
    new.add_argument("targets", nargs="*", metavar="FILE[:FUNCTION]", help="the callable; FILE alone needs make() in it")
    new.add_argument("--trace", type=Path, metavar="FILE", help="a trace in place of a callable: .json, .json.gz or .sqlite")
    new.add_argument("--step", default="", metavar="NAME", help="of a trace, the ranges whose names begin so (ProfilerStep#)")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    add_html(new)
    new.add_argument("--perfetto", metavar="FILE", help="write the timeline for ui.perfetto.dev, too")
    add_code(new)
    new.set_defaults(run=run, program=None, function=None, continue_=False, nproc=None)


def run(args: argparse.Namespace) -> int:
    """Print the decision; return its exit code."""
    if args.trace is None:
        with named_verdict():
            return _of_calls(args)
    return _of_trace(args)


def _of_calls(args: argparse.Namespace) -> int:
    from cudagraph_skill.check.input.source import lines_of
    from cudagraph_skill.check.output import Reader
    from cudagraph_skill.decide import call, call_output

    trace = next((target for target in args.targets if target.endswith(_TRACES)), "")
    if trace:
        raise SkillError(f"skill decide: {trace} is no Python file; if it is a trace: --trace {trace}")
    if args.step:
        raise SkillError("skill decide: --step names ranges of a trace: add --trace FILE, or leave it out")
    _refuse_reports(args)
    results = measured(args, "decide", call.measured)
    reader = Reader(next_step.steps(args), cache(lines_of), colour())
    if args.json:
        records = [call_output.data(result, reader) for result in results]
        print(as_json(records[0] if len(records) == 1 else {"decisions": records}))
    else:
        print("\n\n".join(call_output.text(result, reader) for result in results))
    if args.html or args.perfetto:
        from cudagraph_skill.report import of_call

        _write_reports(args, of_call.page(results[0], reader.steps))
    return call_output.exit_code(results)


def _of_trace(args: argparse.Namespace) -> int:
    from cudagraph_skill import decide
    from cudagraph_skill.decide import output
    from cudagraph_skill.report import of_trace

    given = next((name for name in _OF_A_CALL if getattr(args, name)), "a callable" if args.targets or args.program else "")
    if given:
        named = given if given == "a callable" else f"--{given}"
        raise SkillError(f"skill decide: --trace reads a trace, and nothing is measured: leave out {named}")
    _refuse_reports(args)
    timeline, steps = decide.read(args.trace), next_step.steps(args)
    decision = decide.decide(decide.measured(timeline, args.step))
    print(as_json(output.data(decision, steps)) if args.json else output.text(decision, steps))
    _write_reports(args, of_trace.page(decision, timeline, steps))  # after the answer, which a full disk must not lose
    return output.exit_code(decision)


def _refuse_reports(args: argparse.Namespace) -> None:
    """Raise if a report cannot be written, before the work."""
    from cudagraph_skill.report import file

    refuse_html(args, "decide")
    if args.perfetto and len(args.targets) > 1:
        raise SkillError("skill decide: --perfetto is for one callable: leave the others out")
    if args.perfetto:
        file.refuse("skill decide: --perfetto", args.perfetto, ".json", args.force, args.trace)


def _write_reports(args: argparse.Namespace, page: Page) -> None:
    from cudagraph_skill.report import file, perfetto

    if args.html:
        write_html(args, "decide", page)
    if args.perfetto:
        file.save(perfetto.trace(page), "skill decide: --perfetto", args.perfetto, ".json", args.force)
