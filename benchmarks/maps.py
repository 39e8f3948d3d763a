"""Whether the shares that `skill map` prints are those of a profile, and whether its predictions come true.

    python benchmarks/maps.py run > out.jsonl    on a GPU machine, with the libraries of the cases
    python benchmarks/maps.py keep out.jsonl     back here: becomes benchmarks/evidence/maps.json
    python benchmarks/maps.py                    the figures of that evidence
    python benchmarks/maps.py --check            exit 1 if one is out of its bound, or its case changed

Each case is one of benchmarks/library. `skill map` maps it; a process of its own times eager calls and, where the call
captures, replays, and then profiles eager calls with torch.profiler and adds up kernels, copies and fills. The map's own
regions must add up to that sum.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "tests"), str(HERE)]

import library  # noqa: E402
import on_gpu  # noqa: E402

EVIDENCE = HERE / "evidence" / "maps.json"
CASES = ("001", "004", "012", "047", "062", "070")
_WARM, _CALLS, _BATCHES, _SECONDS = 5, 10, 15, 200
_BOUND = 0.05  # of a profile


def made(name: str) -> tuple[Any, Any]:
    """Return the callable of a case, warmed up, and its arguments."""
    import importlib

    import torch

    torch.manual_seed(0)
    [path] = library.cases([name])
    sys.path.insert(0, str(path.parent))
    case = importlib.import_module(path.stem).make("cuda")  # by its name, as the compiler imports it once more
    for _ in range(_WARM):
        case["fn"](*case["inputs"]())
    torch.cuda.synchronize()
    return case["fn"], case["inputs"]()


def measured(name: str) -> dict[str, Any]:
    """Time a case, then profile it: no profiler was on before."""
    fn, given = made(name)
    return {"timed": timed(fn, given), "profiled": profiled(fn, given)}


def timed(fn: Callable[..., object], given: Any) -> dict[str, Any]:
    """Return seconds of an eager call and of a replay, medians of batches in turns; no replay where it does not capture."""
    import torch

    ways: dict[str, Callable[[], object]] = {"eager": lambda: fn(*given)}
    try:
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                fn(*given)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            fn(*given)
        ways["graph"] = graph.replay
    except Exception as error:  # noqa: BLE001 - whatever a capture raises
        print(type(error).__name__, file=sys.stderr)
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(_BATCHES):
        for way, call in ways.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(_CALLS):
                call()
            torch.cuda.synchronize()
            taken[way].append((time.perf_counter() - start) / _CALLS)
    return {way: {"median": statistics.median(rows), "least": min(rows), "most": max(rows)} for way, rows in taken.items()}


def profiled(fn: Callable[..., object], given: Any) -> dict[str, Any]:
    """Return seconds and number of the kernels, copies and fills of an eager call, by torch.profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        for _ in range(_CALLS):
            fn(*given)
        torch.cuda.synchronize()
    work = [event for event in recorded.events() if str(event.device_type).endswith("CUDA") and not event.is_user_annotation]
    return {"gpu": sum(event.time_range.elapsed_us() for event in work) / 1e6 / _CALLS, "launches": len(work) / _CALLS}


def _child(name: str) -> Any:
    done = subprocess.run(
        [sys.executable, __file__, "measured", name],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"error": done.stderr[-500:]}


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
    )


def _row(name: str) -> dict[str, Any]:
    [path] = library.cases([name])
    printed = _run([sys.executable, "tools/map.py", "--json", "--deadline", "150", str(path.relative_to(ROOT))]).stdout
    answer = json.loads(printed.replace(f"{ROOT}/", "") or "{}")
    given = answer.get("map") or {}
    kept = ("number", "inside", "kind", "name", "gpu", "launches", "cpu", "verdict", "graph")
    rows = [{field: region[field] for field in kept} for region in given.get("regions", [])]
    return {
        "id": path.stem,
        "digest": library.digest(path),
        "verdict": answer.get("verdict"),
        "summary": answer.get("summary"),
        "map": {**given, "regions": rows},
        **_child(path.stem),
        "ladder": [(step["name"], step["seconds"]) for step in answer.get("ladder", [])],
    }


def shares(row: dict[str, Any]) -> float:
    """Return by how much the times of all regions, each without those inside it, miss the profile's sum, as a part of it."""
    inner: dict[int, float] = {}
    for region in row["map"]["regions"]:
        inner[region["inside"]] = inner.get(region["inside"], 0.0) + region["gpu"]
    own = sum(max(0.0, region["gpu"] - inner.get(region["number"], 0.0)) for region in row["map"]["regions"])
    return float(abs(own - row["profiled"]["gpu"]) / row["profiled"]["gpu"])


def predicted(row: dict[str, Any]) -> float | None:
    """Return how far the predicted time of one graph is from the measured one, as a part of it; None without a graph."""
    measured = row["timed"].get("graph")
    return float(abs(row["map"]["predicted"]["one graph"] / measured["median"] - 1)) if measured else None


def main() -> int:
    """Run, keep, or print the figures."""
    match sys.argv[1:]:
        case ["measured", name]:
            print(json.dumps(measured(name)))
            return 0
        case ["run", *names]:
            on_gpu.write_rows(on_gpu.machine("python benchmarks/maps.py run"), map(_row, names or CASES))
            return 0
        case ["keep", file]:
            EVIDENCE.write_text(json.dumps(on_gpu.read_rows(file, "rows"), indent=1) + "\n", encoding="utf-8")
            return 0
    evidence = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    wrong = 0
    for row in evidence["rows"]:
        [path] = library.cases([row["id"]])
        far, off = shares(row), predicted(row)
        wrong += far > _BOUND or row["digest"] != library.digest(path)
        came = "no graph" if off is None else f"prediction off by {off:.0%}"
        print(f"{row['id']:40} {row['verdict']:15} shares off by {far:.1%}, {came}")
    return int("--check" in sys.argv and wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
