"""What the programs of `skill scaffold` show when they are run: right results, the way back to eager, times.

    python benchmarks/receipts.py list [WORD ...] [--missing] > programs.json
        anywhere, with the project installed: all programs that are offered, written for torch 2.11; or those whose command has
        each word (`manual`, `ddp`, `no-fsdp`), and have no good receipt of exactly their text
    python benchmarks/receipts.py run programs.json [--within SECONDS] > out.json
        on a GPU machine: torch, Python 3.11 and the standard library; what needs more GPUs than there are is left out
    python benchmarks/receipts.py keep out.json ...    back here: adds the receipts to benchmarks/evidence/receipts.json
    python benchmarks/receipts.py [WORD ...]           their figures
    python benchmarks/receipts.py --check              exit 1 if one failed, or more lack a receipt of their text than may
    python benchmarks/receipts.py export WORD ...      that of the shortest command, as `skill scaffold --verify` writes it

Programs run side by side on all GPUs there are, and each is timed alone on its own: a lock on a file sees to that. Those for
Transformer Engine and Megatron-Core need these packages; where the packages are not, the programs are left out.
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
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

from cudagraph_skill.errors import SkillError  # noqa: E402
from cudagraph_skill.scaffold import receipt  # noqa: E402

EVIDENCE = HERE / "evidence" / "receipts.json"
WRITTEN_FOR = "torch==2.11"
_FILE = "step.py"
_SIDE_BY_SIDE = {2: 6, 1: 8}  # programs of two processes on a pair of GPUs, of one on a GPU: they are timed when all are ready
_DEADLINE = 150.0  # seconds of a program, without those in which it waits for its turn
_PACKAGES = ("megatron", "transformer_engine")  # that a program may need beside torch


class Program(NamedTuple):
    """A program of the suite: the arguments that make it, its text, its processes, and packages that it needs besides torch."""

    command: str
    text: str
    processes: int
    needs: tuple[str, ...]

    @property
    def digest(self) -> str:
        """That of its receipt."""
        return receipt.digest(self.text)


def programs(words: list[str]) -> list[Program]:
    """Every program that is offered and has these words in its command; `no-ddp` stands for one without `ddp`."""
    from cudagraph_skill.scaffold import render, rules
    from cudagraph_skill.scaffold import versions as releases
    from cudagraph_skill.scaffold.options import spelled

    versions = releases.choose([WRITTEN_FOR], {})
    found = []
    for each in rules.offered():
        command = spelled(each)
        if matches(command, words):
            text = render.program(each, versions, _FILE)
            found.append(
                Program(command, text, 2 if each.ddp or each.fsdp else 1, tuple(each for each in _PACKAGES if each in text))
            )
    return found


def matches(command: str, words: list[str]) -> bool:
    """Whether a command has each of these words, and none of those with `no-` before them."""
    has = {each.removeprefix("--") for each in command.split()}
    return all((each.removeprefix("no-") in has) != each.startswith("no-") for each in words)


# The run --------------------------------------------------------------------------------------------------------------


def run(wanted: list[Program], gpus: int, within: float) -> Iterator[dict[str, Any]]:
    """Receipts of the programs that this machine can run, as they come; stderr says why the others have none."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    start = time.monotonic()
    for program in wanted:
        if why := lacks(program, gpus):
            sys.stderr.write(f"{program.command}: {why}\n")
    for processes, at_once in _SIDE_BY_SIDE.items():
        able = [each for each in wanted if each.processes == processes and not lacks(each, gpus)]
        free = places(processes, gpus, at_once)
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max(1, free.qsize())) as pool:
            verify = functools.partial(_verified, folder=Path(folder), free=free, end=start + within)
            for job in as_completed([pool.submit(verify, each) for each in able]):
                if found := job.result():
                    yield found._asdict()


def places(processes: int, gpus: int, at_once: int) -> queue.SimpleQueue[str]:
    """Where programs of so many processes run: each set of GPUs, as CUDA_VISIBLE_DEVICES names it, `at_once` times."""
    sets = [",".join(map(str, range(first, first + processes))) for first in range(0, gpus - processes + 1, processes)]
    free: queue.SimpleQueue[str] = queue.SimpleQueue()
    for each in sets * at_once:
        free.put(each)
    return free


def lacks(program: Program, gpus: int) -> str:
    """Why a machine with so many GPUs cannot run it; "" where it can."""
    if program.processes > gpus:
        return f"needs {program.processes} GPUs, here are {gpus}"
    missing = [each for each in program.needs if find_spec(each) is None]
    return f"needs {', '.join(missing)}" if missing else ""


def _verified(program: Program, folder: Path, free: queue.SimpleQueue[str], end: float) -> receipt.Receipt | None:
    """Its receipt, None where there was no time for it; made on GPUs that are free, and timed when no other works on them."""
    gpus = free.get()
    try:
        return _verified_on(program, folder, gpus, end)
    finally:
        free.put(gpus)


def _verified_on(program: Program, folder: Path, gpus: str, end: float) -> receipt.Receipt | None:
    own = Path(tempfile.mkdtemp(dir=folder))
    file = own / _FILE
    file.write_text(program.text, encoding="utf-8")
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
    found = receipt.received(file, program.text, ran, program.command)
    sys.stderr.write(f"{found.verdict} {time.monotonic() - start:.0f} s {program.command}: {found.said}\n")
    log = found.log if found.verdict != "ok" else ""
    return found._replace(file=_FILE, said=found.said.replace(f"{own}/", ""), log=log.replace(f"{own}/", ""))


# The evidence ---------------------------------------------------------------------------------------------------------


def keep(files: list[Path], evidence: Path, offered: set[str]) -> None:
    """Add the receipts of runs: of each command that is offered the newest stays."""
    rows = {each["command"]: each for each in kept(evidence)}
    for file in files:
        rows |= {each["command"]: each for each in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
    lines = ",\n".join(
        json.dumps(rows[command]) for command in sorted(rows) if command in offered
    )  # a line each: a change shows as what it is
    evidence.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def kept(evidence: Path) -> list[dict[str, Any]]:
    """The receipts of the evidence."""
    return json.loads(evidence.read_text(encoding="utf-8")) if evidence.exists() else []


def missing(rows: list[dict[str, Any]], known: list[Program]) -> list[str]:
    """Programs that have no receipt of exactly their text; Transformer Engine's cannot be run where this project is made."""
    digests = {each["command"]: each["digest"] for each in rows}
    return [
        each.command for each in known if "transformer_engine" not in each.needs and digests.get(each.command) != each.digest
    ]


def wrong(rows: list[dict[str, Any]], known: list[Program]) -> list[str]:
    """What failed, or is a receipt of nothing, a sentence each."""
    offered = {each.command for each in known}
    said = [f"no longer offered: {each['command']}" for each in rows if each["command"] not in offered]
    return said + [f"{each['command']}: {each['said']}" for each in rows if each["verdict"] != "ok"]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each receipt: differences of losses or outputs, microseconds with 10th and 90th percentile, speedup."""
    lines = ["command | eager twice, graph, graph then eager | eager us | graph us | speedup | wall/busy of a replay, nodes"]
    for each in rows:
        parity, rollback, timing = (each["report"].get(name, {}) for name in ("parity", "rollback", "timing"))
        differ = (parity.get("without_graph_twice"), parity.get("graph"), rollback.get("graph_then_eager"))
        eager, graph = timing.get("eager"), timing.get("graph")
        replay = each["report"].get("replay", {})
        cells = [
            each["command"].removeprefix("--workflow "),
            ", ".join(_number(value) for value in differ),
            _spread(eager),
            _spread(graph),
            f"{eager[0] / graph[0]:.1f}x" if eager and graph else "-",
            f"{replay['wall_over_busy']:.2f}, {replay['nodes']:.0f}" if replay else "-",
        ]
        lines.append(" | ".join(cells) + ("" if each["verdict"] == "ok" else f" | {each['said']}"))
    return lines


def _number(value: Any) -> str:
    return f"{value:.2g}" if isinstance(value, float | int) else "-"


def _spread(times: list[float] | None) -> str:
    return f"{times[0]:.0f} ({times[1]:.0f} to {times[2]:.0f})" if times else "-"


def machines(rows: list[dict[str, Any]]) -> list[str]:
    """On what the receipts were made."""
    found: dict[str, int] = {}
    for each in rows:
        said = each["machine"]
        name = f"{said['gpu']}, driver {said['driver']}, torch {said['torch']}, Python {said['python']}, {said['date']}"
        found[name] = found.get(name, 0) + 1
    return [f"{count} programs on {name}" for name, count in found.items()]


def _show(rows: list[dict[str, Any]], check: bool) -> int:
    for line in (*machines(rows), *table(rows)):
        print(line)
    if not check:
        return 0
    known = programs([])
    for each in known:
        if "transformer_engine" in each.needs:
            print(f"read, not run: {each.command} (needs {', '.join(each.needs)})")
    without, bound = missing(rows, known), _floors()["without receipt"]
    said = wrong(rows, known)
    said += [f"{len(without)} programs have no receipt of their text as it is, at most {bound} may"] * (len(without) > bound)
    print("\n".join([*(f"not run as it is now: {each}" for each in without), *said]))
    return 1 if said else 0


def _floors() -> dict[str, int]:
    import yaml

    floors: dict[str, dict[str, int]] = yaml.safe_load((HERE / "floors.yaml").read_text(encoding="utf-8"))
    return floors["receipts"]


def main() -> int:
    """`list`, `run`, `keep`, `export`, or the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="list, run, keep or export with what they take; or words of commands"
    )
    parser.add_argument("--within", type=float, default=3600, help="seconds after which the run ends with what it has")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    doing, given = args.words[:1], args.words[1:]
    if doing == ["list"]:
        good = {each["digest"] for each in kept(EVIDENCE) if each["verdict"] == "ok"} if args.missing else set()
        print(json.dumps([each._asdict() for each in programs(given) if each.digest not in good], indent=1))
    elif doing == ["run"]:
        import torch

        wanted = [
            Program(**{**each, "needs": tuple(each["needs"])})
            for each in json.loads(Path(given[0]).read_text(encoding="utf-8"))
        ]
        for found in run(wanted, torch.cuda.device_count(), args.within):
            print(json.dumps(found), flush=True)  # each as it comes: whoever ends this run keeps what it has done
    elif doing == ["keep"]:
        keep([Path(each) for each in given], EVIDENCE, {each.command for each in programs([])})
    elif doing == ["export"]:
        found = min((each for each in kept(EVIDENCE) if matches(each["command"], given)), key=lambda each: len(each["command"]))
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        return _show([each for each in kept(EVIDENCE) if matches(each["command"], args.words)], args.check)
    return 0


if __name__ == "__main__":
    sys.exit(main())
