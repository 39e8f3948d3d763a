"""`skill bench`: what a step takes on this GPU with graphs and without, by a published measure and by the clock."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import add_command, count, positive
from cudagraph_skill.cli.check import named_verdict
from cudagraph_skill.cli.terminal import Progress, echo, say
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import as_json, operand, shortened

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from cudagraph_skill.bench.record import Bench
    from cudagraph_skill.cli.arguments import Parser

_ROUNDS, _DEADLINE = 3, 120.0
_MEASURES = ("rounds", "python", "deadline", "traces")


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill bench`."""
    new = add_command(
        commands,
        "bench",
        "measure a published comparison of graphs on your GPU: Self CPU time, and wall time beside it",
        "example: skill bench\n"
        "         skill bench --workload decode --rounds 5 --plot decode.svg\n"
        "         skill bench --json > bench.json && skill bench --show bench.json --markdown bench.md\n\n"
        "the training step of Lei Mao's blog (or another workload of --list): without a graph, captured by hand with backward\n"
        "and optimizer, by make_graphed_callables around the model and around a part of it; and, beside these published rows,\n"
        "captured by hand over torch.compile. Wall time, the time to submit a step, and memory are taken in processes that\n"
        "are never profiled, the ways by turns; Self CPU time, as the blog takes it, and GPU busy time in other processes",
        "exit codes: 0 measured, 1 a way failed, so that its row has no numbers, 2 the command was not understood, or a file\n"
        "is there already, 3 this machine lacks something it needs",
    )
    new.add_argument("--workload", action="append", metavar="NAME", help="a workload of --list; repeat for more (default: mlp)")
    new.add_argument("--list", action="store_true", help="list the workloads")
    new.add_argument("--json", action="store_true", help="print one line of JSON, which --show takes")
    new.add_argument("--show", metavar="FILE", help="show a result that --json printed again, and measure nothing")
    new.add_argument("--markdown", metavar="FILE", help="write the tables as Markdown, too")
    new.add_argument("--plot", metavar="FILE", help="draw them, too: .svg, or .png where matplotlib is installed")
    new.add_argument("--html", metavar="FILE", help="write a report, too: one HTML file that loads and runs nothing")
    new.add_argument("--traces", metavar="FOLDER", help="keep a Chrome trace of each way's first profile")
    new.add_argument("--force", action="store_true", help="replace files that are there")
    new.add_argument("--rounds", type=count, metavar="N", help=f"processes of each way and kind (default {_ROUNDS})")
    new.add_argument("--python", metavar="PATH", help="the interpreter with torch (default: that of the active environment)")
    new.add_argument(
        "--deadline", type=positive, metavar="SECONDS", help=f"stop a process after this time (default {_DEADLINE:g})"
    )
    new.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table, measured or kept; write the files that were asked for; return the exit code."""
    from cudagraph_skill.bench import output
    from cudagraph_skill.bench.ways import known

    if args.list:
        print(output.listed("json" if args.json else "text"))
        return 0
    with named_verdict():
        names = list(dict.fromkeys(map(known, args.workload or ())))
        _refuse(args, names)
        bench = _shown(args, names) if args.show else _measured(args, names)
    follow = next_step.steps(args).read(output.AFTER)
    print(as_json(output.data(bench, follow)) if args.json else output.text(bench, follow))
    _write(args, bench, follow)  # after the answer, which a full disk must not lose
    return 0 if output.is_complete(bench) else 1


def _refuse(args: argparse.Namespace, names: list[str]) -> None:
    """Raise for options that do not go together, and for files that cannot be written, before the work."""
    from cudagraph_skill.report import file

    given = next((name for name in _MEASURES if getattr(args, name)), None)
    if args.show and given:
        raise SkillError(f"skill bench: --show measures nothing: leave out --{given}")
    for option, name, suffix in (("--markdown", args.markdown, ".md"), ("--html", args.html, ".html")):
        if name:
            file.refuse(f"skill bench: {option}", name, suffix, args.force)
    if args.plot:
        suffix = Path(args.plot).suffix
        if suffix not in (".svg", ".png"):
            raise SkillError(f"skill bench: --plot {operand(shortened(args.plot))}: its name has to end in .svg or .png")
        file.refuse("skill bench: --plot", args.plot, suffix, args.force)
        if suffix == ".png":
            from cudagraph_skill.bench import png

            png.refuse()
    if args.traces:
        _refuse_traces(args, names)


# The measurement ------------------------------------------------------------------------------------------------------


def _measured(args: argparse.Namespace, names: list[str]) -> Bench:
    from cudagraph_skill.bench import rounds
    from cudagraph_skill.capture import session
    from cudagraph_skill.capture.interpreter import environment_python, interpreter

    python = interpreter(args.python) if args.python else environment_python()
    wanted = names or ["mlp"]
    number = args.rounds or _ROUNDS
    with Progress() as progress, session.Guests() as guests, _traces(args) as folder:
        plan = rounds.Plan(wanted, number, python, args.deadline or _DEADLINE, folder)
        bench = rounds.measured(plan, guests, session.Listener(progress.say, forward=echo))
    assert bench is not None  # nothing cancels it here
    return bench


def _shown(args: argparse.Namespace, names: list[str]) -> Bench:
    """Return a kept result, or those of its workloads that were named."""
    from dataclasses import replace

    from cudagraph_skill.bench import record

    bench = record.read(Path(args.show))
    kept = [result.workload for result in bench.results]
    lost = next((name for name in names if name not in kept), None)
    if lost:
        raise SkillError(f"skill bench: {operand(shortened(args.show))} has no workload {lost}; it has {', '.join(kept)}")
    return replace(bench, results=[result for result in bench.results if not names or result.workload in names])


# Files ----------------------------------------------------------------------------------------------------------------


def _write(args: argparse.Namespace, bench: Bench, follow: str) -> None:
    """Write the table, the report and the figure."""
    from cudagraph_skill.bench import output, plot, png
    from cudagraph_skill.report import file, html, of_bench

    if args.markdown:
        file.save(output.markdown(bench), "skill bench: --markdown", args.markdown, ".md", args.force)
        say(f"wrote {args.markdown}")
    if args.html:
        report = html.rendered(of_bench.page(bench, follow))
        file.save(report, "skill bench: --html", args.html, ".html", args.force)
        say(f"wrote {args.html}")
    if args.plot:
        suffix = Path(args.plot).suffix
        drawn = png.png(bench) if suffix == ".png" else plot.svg(bench)
        file.save(drawn, "skill bench: --plot", args.plot, suffix, args.force)
        say(f"wrote {args.plot}")


def _refuse_traces(args: argparse.Namespace, names: list[str]) -> None:
    """Raise if the folder cannot be made or written, or has such files."""
    from cudagraph_skill import files
    from cudagraph_skill.bench.rounds import trace_name
    from cudagraph_skill.bench.ways import of_workload

    folder = Path(args.traces)
    inside = [trace_name(name, way.name) for name in names or ["mlp"] for way in of_workload(name)]
    if folder.is_dir():
        targets = [files.target(str(folder / name), lambda path: files.occupied(path, args.force)) for name in inside]
    else:
        targets = [files.target(args.traces, lambda path: files.occupied(path, False))]
    for path, why in targets:
        if why:
            raise SkillError(f"skill bench: --traces {operand(shortened(args.traces))}: {path.name}: {why}")


@contextmanager
def _traces(args: argparse.Namespace) -> Iterator[str]:
    """Give a folder for traces beside the wanted one ("" for none), and move them there after a run that was not stopped."""
    if not args.traces:
        yield ""
        return
    from tempfile import TemporaryDirectory

    folder = Path(args.traces)
    try:
        with TemporaryDirectory(dir=folder.absolute().parent, prefix=".skill.") as made:
            yield made
            folder.mkdir(exist_ok=True)
            for trace in sorted(Path(made).iterdir()):
                trace.replace(folder / trace.name)
            say(next_step.as_called(f"wrote the traces to {folder}; `skill decide --trace FILE` reads them"))
    except OSError as error:
        raise SkillError(f"skill bench: --traces {operand(shortened(args.traces))}: not written: {error.strerror}") from None
