"""What each technique of references/after-capture.md brings: a replay before and after, its nodes, memory, and equality.

    python benchmarks/techniques.py run [NAME ...] > out.jsonl   on a GPU machine that does nothing else
    python benchmarks/techniques.py keep FILE ...                back here: adds the rows to benchmarks/evidence/techniques.json
    python benchmarks/techniques.py                              prints the figures of that evidence
    python benchmarks/techniques.py --check                      exit 1 if a program has changed since, or one is missing

A program of technique_programs.py or technique_loops.py makes the work both ways. Each of two processes, never profiled,
captures each way three times, then replays all of them in turns: microseconds of wall, median, 10th and 90th percentile of
the batches of all. `off` is the largest difference between the results of three runs, relative to their root mean square;
`moved` is what a unit in the last place of the weights does to the first way.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import json
import os
import statistics
import sys
import tempfile
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]

import on_gpu  # noqa: E402

EVIDENCE = HERE / "evidence" / "techniques.json"
NAMES = (
    "nodes", "foreach_adamw", "fused_adamw", "flat_tail", "flat_buffers", "one_cast", "twins", "twins_vmap", "ensemble",
    "several_steps", "random_ahead", "gates_triton", "gates_nvrtc", "branches", "weight_gradients", "wide_gradients", "lanes",
    "one_batch", "dependent_launch", "packing", "sampling", "run_ahead", "equality",
)  # fmt: skip
_FILES = ("technique_programs.py", "technique_loops.py", "technique_kernels.py", "technique_equality.py")
_WAYS, _PROCESSES, _CAPTURES, _ROUNDS, _SECONDS = ("before", "after"), 2, 3, 7, 0.004


@cache
def _sources() -> dict[str, tuple[str, frozenset[str]]]:
    """Return the source of each name that the programs define, and the names that stand in it."""
    known: dict[str, tuple[str, frozenset[str]]] = {}
    for file in _FILES:
        text = (HERE / file).read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            names = frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
            names |= frozenset(part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute))
            own = [getattr(node, "name", "")] + [
                target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)
            ]
            known |= {name: (ast.get_source_segment(text, node) or "", names) for name in own if name}
    return known


def digest(name: str) -> str:
    """Return a hash of a program and of what it uses of these files."""
    met: list[str] = []
    waiting = ["compared" if name == "equality" else name]
    while waiting:
        used = waiting.pop()
        if used in _sources() and used not in met:
            met.append(used)
            waiting += _sources()[used][1]
    return hashlib.sha256("".join(_sources()[used][0] for used in sorted(met)).encode()).hexdigest()[:16]


def made(name: str, way: str, *, moved: bool = False) -> Any:
    """Return the work of a program."""
    import technique_loops
    import technique_programs

    program = getattr(technique_programs, name, None) or getattr(technique_loops, name)
    return program(way, moved=moved)


def measured(name: str) -> dict[str, Any]:
    """Compare the results of both ways, then time them."""
    if name == "equality":
        import technique_equality

        return {"name": name, "pairs": technique_equality.compared()}
    works: list[tuple[str, Any]] = []
    memory = {}
    for number in range(_CAPTURES):
        for way in _WAYS:
            before = _reserved()
            works.append((way, made(name, way)))
            if number == 1:  # the first has loaded modules and workspaces
                memory[way] = (_reserved() - before) / (1 << 20)
    results = [_after_three(work) for _, work in works[:2]]
    rows: dict[str, Any] = {"name": name, "memory": memory, "off": _apart(*results), "moved": None}
    if rows["off"]:
        rows["moved"] = _apart(results[0], _after_three(made(name, "before", moved=True)))
    rows["nodes"] = {way: sum(_nodes(graph) for graph in work.graphs) for way, work in works[:2]}
    taken = _in_turns([work.run for _, work in works])
    return rows | {
        way: [batch for (of, _), row in zip(works, taken, strict=True) if of == way for batch in row] for way in _WAYS
    }


def _reserved() -> int:
    import torch

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return int(torch.cuda.memory_reserved())


def _after_three(work: Any) -> list[Any]:
    for _ in range(3):
        work.run()
    return [tensor.detach().double().clone() for tensor in work.results()]


def _apart(first: list[Any], second: list[Any]) -> float | None:
    """Return the largest difference relative to the root mean square; None where nothing is compared."""
    pairs = zip(first, second, strict=True)
    return max((float((a - b).abs().max() / a.square().mean().sqrt().clamp_min(1e-30)) for a, b in pairs), default=None)


def _nodes(graph: Any) -> int:
    from cuda.bindings import runtime

    error, _, count = runtime.cudaGraphGetNodes(runtime.cudaGraph_t(init_value=graph.raw_cuda_graph()), numNodes=0)
    assert error == runtime.cudaError_t.cudaSuccess, error
    return int(count)


def _in_turns(runs: list[Callable[[], object]]) -> list[list[float]]:
    """Return microseconds of one run, for each of them and each round."""
    counts = [max(2, int(_SECONDS / _batch(run, 3))) for run in runs]
    rounds = [[_batch(run, count) * 1e6 for run, count in zip(runs, counts, strict=True)] for _ in range(_ROUNDS)]
    return [list(row) for row in zip(*rounds, strict=True)]


def _batch(run: Callable[[], object], count: int) -> float:
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def _forked(name: str) -> dict[str, Any]:
    """Measure in a child of this process, which has imported torch and left CUDA alone."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "row"
        child = os.fork()
        if not child:
            try:
                file.write_text(json.dumps(measured(name)))
            except BaseException as error:  # noqa: BLE001 - a child must not go on as a second parent
                file.write_text(json.dumps({"name": name, "error": f"{type(error).__name__}: {error}"}))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return dict(json.loads(file.read_text()))


def _rows(names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for name in names:
        parts = [_forked(name) for _ in range(1 if name == "equality" else _PROCESSES)]
        wrong = [part for part in parts if "error" in part]
        times = {way: [time for part in parts for time in part.get(way, ())] for way in _WAYS}
        row = wrong[0] if wrong else parts[0] | {way: _spread(taken) for way, taken in times.items() if taken}
        yield {"digest": digest(name), **row}


def _spread(times: list[float]) -> dict[str, float]:
    tenths = statistics.quantiles(times, n=10)
    return {"median": round(statistics.median(times), 2), "p10": round(tenths[0], 2), "p90": round(tenths[-1], 2)}


def run(names: tuple[str, ...]) -> None:
    """Print what the machine is, then a row for each program."""
    for module in ("torch._dynamo", "numpy", "technique_equality", "technique_kernels", "technique_loops"):
        import_module(module)  # before any fork; an optimizer's first step imports the first
    gc.freeze()  # each capture collects garbage, and torch is none
    machine = on_gpu.machine("python benchmarks/techniques.py run")
    on_gpu.write_rows(machine | {"triton": on_gpu.release("triton")}, _rows(names))


def keep(files: list[str]) -> None:
    """Add rows to the evidence: of a program the last one."""
    runs = [on_gpu.read_rows(file, "rows") for file in files]
    older = json.loads(EVIDENCE.read_text(encoding="utf-8"))["rows"] if EVIDENCE.exists() else []
    rows = {row["name"]: row for row in [*older, *(row for part in runs for row in part["rows"])]}
    kept = {**runs[-1], "rows": [rows[name] for name in NAMES if name in rows]}
    EVIDENCE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['name']:18} {row['error'].splitlines()[0]}"
    if "pairs" in row:
        return "\n".join(f"{pair:80} {f'off by {off:.1e}' if off else 'equal'}" for pair, off in row["pairs"].items())
    times = [f"{row[way]['median']:8.1f} ({row[way]['p10']:.1f} to {row[way]['p90']:.1f})" for way in _WAYS]
    equal = {None: "not compared", 0: "equal"}.get(row["off"]) or f"off by {row['off']:.1e}, a unit moves {row['moved']:.1e}"
    nodes, memory = row["nodes"], row["memory"]
    gain = row["before"]["median"] / row["after"]["median"]
    return (
        f"{row['name']:18} {nodes['before']:5} -> {nodes['after']:5} nodes {times[0]:28} -> {times[1]:28} us {gain:5.2f}x  "
        f"{memory['before']:4.0f} -> {memory['after']:4.0f} MiB  {equal}"
    )


def main() -> int:
    """Run, keep, or print the figures."""
    match sys.argv[1:]:
        case ["run", *names]:
            run(tuple(names) or NAMES)
            return 0
        case ["keep", *files] if files:
            keep(files)
            return 0
    evidence = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    print("\n".join(map(_line, evidence["rows"])))
    right = {row["name"] for row in evidence["rows"] if row["digest"] == digest(row["name"]) and "error" not in row}
    lacking = [name for name in NAMES if name not in right]
    print(*(f"no row of this text: {name}" for name in lacking), sep="\n", end="\n" if lacking else "")
    return int("--check" in sys.argv and bool(lacking))


if __name__ == "__main__":
    sys.exit(main())
