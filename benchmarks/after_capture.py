"""What is possible after the graph: programs whose step is captured, and the same with fewer and larger kernels.

    python benchmarks/after_capture.py run [NAME ...] > rows.jsonl   on a GPU machine that does nothing else; torch is enough
    python benchmarks/after_capture.py keep FILE ...                 back here: adds the rows to evidence/after_capture.json
    python benchmarks/after_capture.py                               the table of that evidence, and what is out of its bound
    python benchmarks/after_capture.py --check                       exit 1 if anything is, or a program has no evidence

Without names `run` takes the programs that have no evidence of exactly their text. Each file of benchmarks/after_capture has
the functions of INTERFACE. A way of making a step is timed in a process of its own that is never profiled; all of them stay
alive, and rounds take turns. Other processes compare the ways before that, and after it profile each and measure this GPU's
bandwidth and peak.
`after` has to be 1.5 times as fast as `plain`, and within twice the floor: bytes that must move over the bandwidth, or
operations over the peak, whichever is longer. Every truth value that `compared` returns has to be true.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools"), str(HERE), str(HERE / "after_capture")]

import on_gpu  # noqa: E402

PROGRAMS, EVIDENCE = HERE / "after_capture", HERE / "evidence" / "after_capture.json"
INTERFACE, WAYS = ("eager", "plain", "after", "compared", "floor"), ("eager", "plain", "after")
GAIN, FLOORS = 1.5, 2.0  # times as fast as plain, at least; times the floor, at most
_ROUNDS, _ROUND_SECONDS, _WARM, _PROFILED = 11, 0.1, 20, 10


def programs() -> dict[str, Path]:
    """Return the programs by name."""
    return {path.stem: path for path in sorted(PROGRAMS.glob("*.py")) if not path.stem.endswith("_kernels")}


def digest(path: Path) -> str:
    """Return a hash of the text of a program, of its kernels, and of workflows.py, from which it may take its capture."""
    text = path.read_text(encoding="utf-8")
    kernels = sorted(set(re.findall(r"^import (\w+_kernels)\b", text, re.MULTILINE)))
    files = [*(path.with_name(f"{name}.py") for name in kernels), HERE / "workflows.py"]
    texts = [text, *(file.read_text(encoding="utf-8") for file in files)]
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


# On the GPU: one part of the measurement in each process ----------------------------------------------------------------


def _loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, programs()[name])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # the compiler looks it up there
    spec.loader.exec_module(module)
    return module


def _turn(said: object = None) -> None:
    """Say that all is prepared, and wait until it is this process's turn."""
    print(json.dumps(said), flush=True)
    sys.stdin.readline()


def _timed(name: str, way: str) -> None:
    """Prepare a way; then time as many steps as each line asks for."""
    import workflows

    step: Callable[[], object] = getattr(_loaded(name), way)()
    for _ in range(_WARM):
        step()
    print(json.dumps(workflows.seconds(step, _WARM)), flush=True)
    for asked in sys.stdin:
        print(json.dumps(workflows.seconds(step, int(asked))), flush=True)


def _profiled(name: str, way: str) -> dict[str, float]:
    """Return for how long the GPU works in a step, and with how many kernels, copies and fills."""
    from cudagraph_skill.scaffold.guest import verify

    step = getattr(_loaded(name), way)()
    for _ in range(_WARM):
        step()
    _turn()
    spans = verify.gpu_spans(step, [[]] * _PROFILED)
    return {"us": round(verify.union(spans) / 1e3 / _PROFILED, 2), "nodes": round(len(spans) / _PROFILED, 1)}


def _limits(name: str) -> dict[str, Any]:
    """Return what must be moved and computed, how fast this GPU does that, and how long it takes so."""
    from cudagraph_skill.capture.guest import calibration

    program = _loaded(name)
    moved, computed = program.floor()
    kind = getattr(program, "DTYPE", "bfloat16")
    _turn()
    rates = calibration.rates([kind])
    seconds = max(moved / rates.memory, computed / rates.products[kind])
    return {
        "bytes": moved,
        "flops": computed,
        "kind": kind,
        "bytes_a_second": rates.memory,
        "flops_a_second": rates.products[kind],
        "us": round(1e6 * seconds, 2),
    }


class Child:
    """A part of the measurement in a process of its own; what it complains of goes to a file."""

    def __init__(self, *words: str) -> None:
        self.complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process
        pipe = subprocess.PIPE
        command = [sys.executable, __file__, *words]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.complaints, text=True, bufsize=1)

    def read(self) -> Any:
        """Return what the process prints next; raise what it complained of if it has ended."""
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if not answer:
            self.process.wait()
            self.complaints.seek(0)
            raise RuntimeError(self.complaints.read()[-1000:])
        return json.loads(answer)

    def ask(self, said: object = "") -> Any:
        """Give the process its turn, and return what it answers."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{said}\n")
        return self.read()

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()
        self.complaints.close()


def _in_turns(children: dict[str, Child], first: dict[str, float]) -> dict[str, list[float]]:
    """Return microseconds of a step, by way: median, 10th and 90th percentile of rounds that take turns."""
    taken: dict[str, list[float]] = {way: [] for way in children}
    for _ in range(_ROUNDS):
        for way, child in children.items():
            taken[way].append(1e6 * child.ask(max(3, int(_ROUND_SECONDS / first[way]))))
    return {way: spread(rows) for way, rows in taken.items()}


def row(name: str) -> dict[str, Any]:
    """Measure a program: its processes prepare side by side, then one after the other has the GPU."""
    known: dict[str, Any] = {"id": name, "digest": digest(programs()[name])}
    timed = {way: Child("timed", name, way) for way in WAYS}
    profiled = {way: Child("profiled", name, way) for way in WAYS}
    compared, limits = Child("compared", name), Child("floor", name)
    everyone = (compared, limits, *timed.values(), *profiled.values())
    try:
        known["compared"] = compared.read()
        first = {way: child.read() for way, child in timed.items()}
        for child in (*profiled.values(), limits):
            child.read()
        known["us"] = _in_turns(timed, first)
        known["busy"] = {way: child.ask() for way, child in profiled.items()}
        return known | {"floor": limits.ask()}
    except (RuntimeError, OSError, ValueError) as error:  # it ended, or printed something else
        return known | {"failed": str(error)}
    finally:
        for child in everyone:
            child.end()


def spread(rows: list[float]) -> list[float]:
    """Return median, 10th and 90th percentile."""
    cuts = statistics.quantiles(rows, n=10, method="inclusive")
    return [round(value, 2) for value in (statistics.median(rows), cuts[0], cuts[8])]


# The evidence ------------------------------------------------------------------------------------------------------------


def rows(evidence: Path = EVIDENCE) -> list[dict[str, Any]]:
    """Return the rows of the evidence."""
    runs = json.loads(evidence.read_text(encoding="utf-8")) if evidence.exists() else []
    return [kept for run in runs for kept in run["rows"]]


def missing(given: Iterable[dict[str, Any]]) -> list[str]:
    """Return the programs without a row of exactly their text."""
    known = {(kept["id"], kept["digest"]) for kept in given if "failed" not in kept}
    return [name for name, path in programs().items() if (name, digest(path)) not in known]


def keep(files: Iterable[str], evidence: Path = EVIDENCE) -> None:
    """Add runs to the evidence: each program keeps its newest row, with its machine."""
    runs = json.loads(evidence.read_text(encoding="utf-8")) if evidence.exists() else []
    runs += [on_gpu.read_rows(file, "rows") for file in files]
    taken: set[str] = set()
    for run in reversed(runs):
        run["rows"] = [kept for kept in run["rows"] if kept["id"] not in taken]
        taken |= {kept["id"] for kept in run["rows"]}
    evidence.write_text(json.dumps([run for run in runs if run["rows"]], indent=1) + "\n", encoding="utf-8")


def wrong(kept: dict[str, Any]) -> Iterator[str]:
    """Yield what of a row is out of its bound."""
    if "failed" in kept:
        yield f"{kept['id']}: failed: {kept['failed']}"
        return
    times = {way: kept["us"][way][0] for way in WAYS}
    if times["after"] * GAIN > times["plain"]:
        yield f"{kept['id']}: after is {times['plain'] / times['after']:.2f} times as fast as plain, not {GAIN}"
    if times["after"] > FLOORS * kept["floor"]["us"]:
        yield f"{kept['id']}: after takes {times['after'] / kept['floor']['us']:.2f} times the floor, more than {FLOORS}"
    truths = {name: value for name, value in kept["compared"].items() if isinstance(value, bool)}
    if not truths:
        yield f"{kept['id']}: nothing says whether the ways agree"
    yield from (f"{kept['id']}: not true: {name}" for name, value in truths.items() if not value)


def line(kept: dict[str, Any]) -> str:
    """Format a row of the table."""
    if "failed" in kept:
        return f"| {kept['id']} | failed |"
    us, busy, least = kept["us"], kept["busy"], kept["floor"]["us"]
    times = " | ".join(f"{us[way][0]:.0f} ({us[way][1]:.0f} to {us[way][2]:.0f})" for way in WAYS)
    nodes = " | ".join(f"{busy[way]['nodes']:.0f}" for way in WAYS[1:])
    gain, over = us["plain"][0] / us["after"][0], us["after"][0] / least
    return f"| {kept['id']} | {times} | {gain:.2f}x | {least:.0f} | {over:.2f} | {busy['after']['us']:.0f} | {nodes} |"


def main() -> int:
    """Run one part, `run` or `keep`, or print the table."""
    parts: dict[str, Callable[..., Any]] = {
        "compared": lambda name: _loaded(name).compared(),
        "profiled": _profiled,
        "floor": _limits,
    }
    match sys.argv[1:]:
        case ["timed", name, way]:
            _timed(name, way)
            return 0
        case [part, *given] if part in parts:
            print(json.dumps(parts[part](*given)))
            return 0
        case ["run", *names]:
            wanted = names or missing(rows())
            print(f"to run: {', '.join(wanted) or 'nothing'}", file=sys.stderr)
            machine = on_gpu.machine(" ".join(["python benchmarks/after_capture.py run", *names]))
            on_gpu.write_rows({**machine, "triton": on_gpu.release("triton")}, map(row, wanted))
            return 0
        case ["keep", *files] if files:
            keep(files)
            return 0
        case [] | ["--check"]:
            return _shown(rows(), check="--check" in sys.argv)
    sys.exit(__doc__)


def _shown(given: list[dict[str, Any]], check: bool) -> int:
    print("| program | eager, us | plain | after | gain | floor | after / floor | busy | nodes of plain | of after |")
    print("\n".join(["|---|---|---|---|---|---|---|---|---|---|", *map(line, given)]))
    bad = [said for kept in given for said in wrong(kept)] + [f"not run as it is now: {name}" for name in missing(given)]
    print("\n".join(bad))
    return int(check and bool(bad))


if __name__ == "__main__":
    sys.exit(main())
