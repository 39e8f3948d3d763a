"""What the programs of `skill scaffold` show when they run: right results, the way back to eager, times.

    python benchmarks/receipts.py list [WORD ...] > programs.json
        anywhere, with the project installed: all programs, written for torch 2.11; words choose those whose command has each
        (`manual`, `ddp`, `no-fsdp`)
    python benchmarks/receipts.py list --missing > programs.json
        the fewest programs to run so that each pair of option values is in a receipt; stderr says which and how many
    python benchmarks/receipts.py run programs.json [--within SECONDS] > out.json
        on a GPU machine: torch, Python 3.11 and the standard library; skips programs that need more GPUs than there are
    python benchmarks/receipts.py keep out.json ...    back here: adds the receipts to benchmarks/evidence/receipts.json
    python benchmarks/receipts.py [WORD ...]           prints their figures
    python benchmarks/receipts.py --check              exits with 1 if one failed or is missing
    python benchmarks/receipts.py export WORD ...      prints the one with the shortest command, as `--verify` writes it

A receipt counts for exactly the text that was run. Programs of PyTorch alone are run as `--module` writes them, in two files;
in one file they have the same lines. Programs run side by side on all GPUs, and are timed one at a time, which a
lock on a file ensures. Programs for Transformer Engine and Megatron-Core are skipped where these packages are not installed.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import queue
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cudagraph_skill.scaffold.options import Options

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools")]

import pairwise  # noqa: E402
from cudagraph_skill.errors import SkillError  # noqa: E402
from cudagraph_skill.scaffold import receipt  # noqa: E402

EVIDENCE = HERE / "evidence" / "receipts.json"
WRITTEN_FOR = "torch==2.11"
_FILE, _CHECKS = "step.py", "check_step.py"
_SIDE_BY_SIDE = {2: 6, 1: 7}  # programs of two processes on a pair of GPUs, of one on a GPU: Transformer Engine takes 9 GB each
_DEADLINE = 150.0  # seconds of a program, without those in which it waits for its turn
_PACKAGES = ("megatron", "transformer_engine")  # that a program may need beside torch
_Options = TypeVar("_Options", bound=NamedTuple)


class Program(NamedTuple):
    """A program of the suite: its command and text, how many processes it needs, and the packages it needs beside torch.

    Of a program in two files, `text` is that of the checks, which are run, and `module` that of the other.
    """

    command: str
    text: str
    processes: int
    needs: tuple[str, ...]
    module: str = ""

    @property
    def digest(self) -> str:
        """Return the digest that its receipt has."""
        return receipt.digest(self.module + self.text)

    def write(self, folder: Path) -> Path:
        """Write its files and return the one to run."""
        if self.module:
            (folder / _FILE).write_text(self.module, encoding="utf-8")
        file = folder / (_CHECKS if self.module else _FILE)
        file.write_text(self.text, encoding="utf-8")
        return file


def programs() -> dict[Options, Program]:
    """Render every program that is offered."""
    from cudagraph_skill.scaffold import render, rules
    from cudagraph_skill.scaffold import versions as releases
    from cudagraph_skill.scaffold.options import PLAIN, spelled

    versions = releases.choose([WRITTEN_FOR], {})
    suite = {}
    for options in rules.offered():
        if options.workflow in PLAIN:
            module, text = render.module(options, versions, _FILE)
        else:
            module, text = "", render.program(options, versions, _FILE)
        needs = tuple(package for package in _PACKAGES if package in text)
        suite[options] = Program(spelled(options), text, 2 if options.ddp or options.fsdp else 1, needs, module)
    return suite


def matches(command: str, words: list[str]) -> bool:
    """Return whether a command has each of these words; `no-ddp` stands for a command without `ddp`."""
    has = {word.removeprefix("--") for word in command.split()}
    return all((word.removeprefix("no-") in has) != word.startswith("no-") for word in words)


# The run --------------------------------------------------------------------------------------------------------------


def run(wanted: list[Program], gpus: int, within: float) -> Iterator[dict[str, Any]]:
    """Yield the receipts of programs that this machine can run, as they finish; tell stderr why others are skipped."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    start = time.monotonic()
    for program in wanted:
        if why := lacks(program, gpus):
            sys.stderr.write(f"{program.command}: {why}\n")
    for processes, at_once in _SIDE_BY_SIDE.items():
        able = [program for program in wanted if program.processes == processes and not lacks(program, gpus)]
        free = places(processes, gpus, at_once)
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max(1, free.qsize())) as pool:
            verify = functools.partial(_verified, folder=Path(folder), free=free, end=start + within)
            for job in as_completed([pool.submit(verify, program) for program in able]):
                if made := job.result():
                    yield made._asdict()


def places(processes: int, gpus: int, at_once: int) -> queue.SimpleQueue[str]:
    """Return where programs of so many processes run: each set of GPUs for CUDA_VISIBLE_DEVICES, `at_once` times."""
    sets = [",".join(map(str, range(first, first + processes))) for first in range(0, gpus - processes + 1, processes)]
    free: queue.SimpleQueue[str] = queue.SimpleQueue()
    for place in sets * at_once:
        free.put(place)
    return free


def lacks(program: Program, gpus: int) -> str:
    """Return why a machine with so many GPUs cannot run the program; "" if it can."""
    if program.processes > gpus:
        return f"needs {program.processes} GPUs, here are {gpus}"
    missing = [package for package in program.needs if find_spec(package) is None]
    return f"needs {', '.join(missing)}" if missing else ""


def _verified(program: Program, folder: Path, free: queue.SimpleQueue[str], end: float) -> receipt.Receipt | None:
    """Wait for free GPUs and make a receipt on them; return None if there was no time for it."""
    gpus = free.get()
    try:
        return _verified_on(program, folder, gpus, end)
    finally:
        free.put(gpus)


def _verified_on(program: Program, folder: Path, gpus: str, end: float) -> receipt.Receipt | None:
    own = Path(tempfile.mkdtemp(dir=folder))
    file = program.write(own)
    start = time.monotonic()
    try:
        ran = receipt.run_guest(
            file,
            sys.executable,
            ["--turn", str(folder / f"turn{gpus}")],
            processes=program.processes,
            environment={"CUDA_VISIBLE_DEVICES": gpus},
            deadline=_DEADLINE,
            cancelled=lambda: time.monotonic() > end,
        )
        receipt.raise_if_lacking(ran, sys.executable)
    except SkillError as error:
        sys.stderr.write(f"{program.command}: {error}\n")
        return None
    made = receipt.received(file, program.module + program.text, ran, program.command)
    sys.stderr.write(f"{made.verdict} {time.monotonic() - start:.0f} s {program.command}: {made.said}\n")
    log = made.log if made.verdict != "ok" else ""
    return made._replace(file=file.name, said=made.said.replace(f"{own}/", ""), log=log.replace(f"{own}/", ""))


# The evidence ---------------------------------------------------------------------------------------------------------


def keep(files: list[Path], evidence: Path, offered: set[str]) -> None:
    """Add the receipts of runs; keep the newest of each offered command."""
    rows = {row["command"]: row for row in kept(evidence)}
    for file in files:
        rows |= {row["command"]: row for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
    lines = ",\n".join(json.dumps(rows[command]) for command in sorted(rows) if command in offered)  # one per line, for diffs
    evidence.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def kept(evidence: Path) -> list[dict[str, Any]]:
    """Return the receipts of the evidence."""
    return json.loads(evidence.read_text(encoding="utf-8")) if evidence.exists() else []


def verified(rows: list[dict[str, Any]], suite: Mapping[_Options, Program]) -> list[_Options]:
    """Return the programs that have a good receipt of exactly their text."""
    good = {(row["command"], row["digest"]) for row in rows if row["verdict"] == "ok"}
    return [options for options, program in suite.items() if (program.command, program.digest) in good]


def to_run(rows: list[dict[str, Any]], suite: Mapping[_Options, Program]) -> list[Program]:
    """Return the fewest programs to run so that each pair of option values is in a receipt."""
    return [suite[options] for options in pairwise.covering(list(suite), verified(rows, suite))]


def wrong(rows: list[dict[str, Any]], suite: Iterable[Program]) -> list[str]:
    """Return a sentence for each receipt that failed, or whose program is no longer offered."""
    offered = {program.command for program in suite}
    gone = [f"no longer offered: {row['command']}" for row in rows if row["command"] not in offered]
    return gone + [f"{row['command']}: {row['said']}" for row in rows if row["verdict"] != "ok"]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Format a line per receipt: differences of losses or outputs, microseconds with 10th and 90th percentile, speedup."""
    lines = ["command | eager twice, graph, graph then eager | eager us | graph us | speedup | wall/busy of a replay, nodes"]
    for row in rows:
        parity, rollback, timing = (row["report"].get(name, {}) for name in ("parity", "rollback", "timing"))
        differ = (parity.get("without_graph_twice"), parity.get("graph"), rollback.get("graph_then_eager"))
        eager, graph = timing.get("eager"), timing.get("graph")
        replay = row["report"].get("replay", {})
        cells = [
            row["command"].removeprefix("--workflow "),
            ", ".join(_number(value) for value in differ),
            _spread(eager),
            _spread(graph),
            f"{eager[0] / graph[0]:.1f}x" if eager and graph else "-",
            f"{replay['wall_over_busy']:.2f}, {replay['nodes']:.0f}" if replay else "-",
        ]
        lines.append(" | ".join(cells) + ("" if row["verdict"] == "ok" else f" | {row['said']}"))
    return lines


def _number(value: Any) -> str:
    return f"{value:.2g}" if isinstance(value, float | int) else "-"


def _spread(times: list[float] | None) -> str:
    return f"{times[0]:.0f} ({times[1]:.0f} to {times[2]:.0f})" if times else "-"


def machines(rows: list[dict[str, Any]]) -> list[str]:
    """Return how many receipts each machine made."""
    counts: dict[str, int] = {}
    for row in rows:
        machine = row["machine"]
        gpu, driver, torch, python, date = (machine[key] for key in ("gpu", "driver", "torch", "python", "date"))
        name = f"{gpu}, driver {driver}, torch {torch}, Python {python}, {date}"
        counts[name] = counts.get(name, 0) + 1
    return [f"{count} programs on {name}" for name, count in counts.items()]


def _show(rows: list[dict[str, Any]], check: bool) -> int:
    for line in (*machines(rows), *table(rows)):
        print(line)
    return _check(rows, programs()) if check else 0


def _check(rows: list[dict[str, Any]], suite: Mapping[Options, Program]) -> int:
    """Print what has no receipt; return 1 if a receipt failed, or more pairs of option values have none than may."""
    done = set(verified(rows, suite))
    for options, program in suite.items():
        if options not in done:
            print(f"not run as it is now: {program.command}")
    pairs, bound = len(pairwise.uncovered(list(suite), done)), _floors()["pairs without receipt"]
    print(f"{len(done)} of {len(suite)} programs have a receipt of their text; {pairs} pairs of option values have none")
    problems = wrong(rows, suite.values())
    problems += [f"{pairs} pairs have no receipt, at most {bound} may: run those of `list --missing`"] * (pairs > bound)
    print("\n".join(problems))
    return 1 if problems else 0


def _floors() -> dict[str, int]:
    import yaml

    floors: dict[str, dict[str, int]] = yaml.safe_load((HERE / "floors.yaml").read_text(encoding="utf-8"))
    return floors["receipts"]


def _list(words: list[str], only_missing: bool) -> None:
    suite = programs()
    listed = to_run(kept(EVIDENCE), suite) if only_missing else list(suite.values())
    listed = [program for program in listed if matches(program.command, words)]
    print(json.dumps([program._asdict() for program in listed], indent=1))
    if only_missing:
        sys.stderr.write("".join(f"{program.command}\n" for program in listed) + f"{len(listed)} programs to run\n")


def _run(file: str, within: float) -> None:
    import torch

    listed = json.loads(Path(file).read_text(encoding="utf-8"))
    wanted = [Program(**{**fields, "needs": tuple(fields["needs"])}) for fields in listed]
    for made in run(wanted, torch.cuda.device_count(), within):
        print(json.dumps(made), flush=True)  # at once: an interrupted run keeps what it has done


def _export(words: list[str]) -> None:
    rows = [row for row in kept(EVIDENCE) if matches(row["command"], words)]
    print(json.dumps(min(rows, key=lambda row: len(row["command"])), indent=1, ensure_ascii=False))


def main() -> int:
    """Run `list`, `run`, `keep` or `export`, or print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="list, run, keep or export with their arguments; or words of commands"
    )
    parser.add_argument("--within", type=float, default=3600, help="end the run after this many seconds")
    parser.add_argument("--missing", action="store_true", help="list only what has to be run")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a receipt failed or is missing")
    args = parser.parse_args()
    match args.words:
        case ["list", *words]:
            _list(words, args.missing)
        case ["run", file]:
            _run(file, args.within)
        case ["keep", *files]:
            keep(list(map(Path, files)), EVIDENCE, {program.command for program in programs().values()})
        case ["export", *words]:
            _export(words)
        case words:
            return _show([row for row in kept(EVIDENCE) if matches(row["command"], words)], args.check)
    return 0


if __name__ == "__main__":
    sys.exit(main())
