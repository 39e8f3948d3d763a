"""Whether `skill tune` finds the fastest right way, and whether its code is right.

    python benchmarks/tuning.py run [NAME ...] > out.jsonl   on a GPU machine that does nothing else, with the libraries
    python benchmarks/tuning.py keep FILE ...                back here: adds the rows to benchmarks/evidence/tuning.json
    python benchmarks/tuning.py                              the figures of that evidence; --misses has a line for each workload
    python benchmarks/tuning.py --check                      exit 1 if one is out of its bound, or a workload changed

The workloads are those of decisions.py. Processes that have nothing of our tools time each way of it: eager calls,
torch.compile, reduce-overhead, replays of a capture, and of one over the compiled function; they set up beside each other, and
are timed one after the other. The choice is right if they find no way that is more than 5 % faster, but for one whose results
the tool found to be wrong; the code that it wrote goes through `skill check --run` meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests"), str(HERE)]

import decisions  # noqa: E402
import library  # noqa: E402
import on_gpu  # noqa: E402
from cudagraph_skill.tune import choice  # noqa: E402
from cudagraph_skill.tune.trials import Agreement, Times, Trial  # noqa: E402

EVIDENCE = HERE / "evidence" / "tuning.json"
WORKLOADS = (
    "mlp", "decode", "gpt", "actor_critic", "wide_mlp", "convolutions", "attention", "001", "004", "009", "012", "014", "022",
    "026",     "053", "062", "090", "099", "106", "117",
)  # fmt: skip
_WAYS = ("eager", "compile", "reduce-overhead", "manual", "manual over compile")
_NEAR, _SECONDS, _CALLS, _BATCHES = 0.05, 300, 10, 15


# The run --------------------------------------------------------------------------------------------------------------


def _made(name: str) -> tuple[Callable[..., Any], Any]:
    import maps
    import torch

    if name not in decisions.OWN:
        return maps.made(name)
    torch.manual_seed(0)
    return decisions.OWN[name]()["fn"], ()


def _way(way: str, fn: Callable[..., Any], given: Any) -> Callable[[], object]:
    """Return calls in this way, on fixed arguments."""
    import torch

    if way in ("eager", "compile", "reduce-overhead"):
        inner = fn if way == "eager" else torch.compile(fn, mode=None if way == "compile" else way)

        def call() -> None:
            if way == "reduce-overhead":
                torch.compiler.cudagraph_mark_step_begin()
            inner(*given)

        return call
    captured = torch.compile(fn) if way == "manual over compile" else fn
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        for _ in range(3):
            captured(*given)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        captured(*given)
    replay: Callable[[], object] = graph.replay
    return replay


def _seconds(call: Callable[[], object]) -> dict[str, float]:
    import torch

    rows = []
    for _ in range(_BATCHES):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(_CALLS):
            call()
        torch.cuda.synchronize()
        rows.append((time.perf_counter() - start) / _CALLS)
    return {"median": statistics.median(rows), "least": min(rows), "most": max(rows)}


def _plain(name: str, way: str, turns: str) -> dict[str, Any]:
    """Time one way; if it raises, return the error's type."""
    try:
        with _turn(turns, fcntl.LOCK_SH):
            call = _way(way, *_made(name))
            for _ in range(6):
                call()
        with _turn(turns, fcntl.LOCK_EX):
            return _seconds(call)
    except Exception as error:  # noqa: BLE001 - whatever a capture or the compiler raises
        return {"error": type(error).__name__}


@contextlib.contextmanager
def _turn(turns: str, lock: int) -> Iterator[None]:
    """Hold the lock that all share while they set up, and each has for itself while it is timed."""
    with Path(turns).open("rb") as file:
        fcntl.flock(file, lock)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


def _row(name: str) -> dict[str, Any]:
    own = name in decisions.OWN
    target = str(HERE / "decisions.py") if own else str(library.cases([name])[0])
    make = ["--make", name] if own else []
    written = Path(target).with_name("written_by_tune.py")
    written.unlink(missing_ok=True)
    start = time.monotonic()
    answer = json.loads(_run([sys.executable, "tools/tune.py", "--json", "--write", str(written), *make, target]))
    took, checked = time.monotonic() - start, {}
    with tempfile.NamedTemporaryFile() as turns:
        with _turn(turns.name, fcntl.LOCK_SH):
            plain = [
                subprocess.Popen([sys.executable, __file__, "plain", name, way, turns.name], stdout=subprocess.PIPE)
                for way in _WAYS
            ]
            if written.exists():
                checked = json.loads(_run([sys.executable, "tools/check.py", "--run", "--json", *make, str(written)]))
                written.unlink()
        timed = {way: _printed(each) for way, each in zip(_WAYS, plain, strict=True)}
    tuning = {**(answer.get("tuning") or {}), "code": ""}
    return {
        "id": name,
        "digest": decisions.digest(name),
        "seconds": round(took, 1),
        "summary": answer.get("summary") or answer.get("error"),
        "tuning": tuning if answer.get("tuning") else None,
        "code": {"verdict": checked.get("verdict"), "summary": checked.get("summary") or checked.get("error")},
        "plain": timed,
    }


def _printed(process: subprocess.Popen[bytes]) -> Any:
    """Return the last line of a process, which is JSON, or that it ended or was killed without one."""
    try:
        lines = process.communicate(timeout=_SECONDS)[0].splitlines()
    except subprocess.TimeoutExpired:
        process.kill()
        lines = process.communicate()[0].splitlines()
    return json.loads(lines[-1]) if process.returncode == 0 and lines else {"error": f"exit {process.returncode}"}


def _run(command: list[str]) -> str:
    return decisions.answer_of(command, _SECONDS).replace(f"{ROOT}/", "")


# The figures ----------------------------------------------------------------------------------------------------------


def rows() -> list[dict[str, Any]]:
    """Return the rows of the evidence."""
    return [row for run in json.loads(EVIDENCE.read_text(encoding="utf-8")) for row in run["rows"] if row["tuning"]]


def chosen(row: dict[str, Any]) -> dict[str, Any]:
    """Return the way that was chosen."""
    found: dict[str, Any] = next(way for way in row["tuning"]["ways"] if way["name"] == row["tuning"]["way"])
    return found


def chosen_now(row: dict[str, Any]) -> str:
    """Return the way that the tool as it is would choose by the times of a row."""
    trials = [
        Trial(
            way["name"],
            Agreement(**way["against_eager"]) if way["against_eager"] else None,
            [Times(**each) for each in way["rounds"]],
        )
        for way in row["tuning"]["ways"]
    ]
    found = choice.choice(trials)
    return found.trial.name if found else ""


def faster(row: dict[str, Any], way: str = "") -> str:
    """Return the right way that a plain process found more than 5 % faster than `way`, or than the chosen one; "" if none."""
    way = way or row["tuning"]["way"]
    taken = row["plain"].get(way, {}).get("median") or next(
        each["median"] for each in row["tuning"]["ways"] if each["name"] == way
    )
    wrong = [way["name"] for way in row["tuning"]["ways"] if way["against_eager"] and not _is_right(way)]
    times = {name: each["median"] for name, each in row["plain"].items() if name not in wrong and each.get("median")}
    best = min(times, key=lambda name: times[name])
    return best if times[best] < taken / (1 + _NEAR) else ""


def _is_right(way: dict[str, Any]) -> bool:
    return (way["against_eager"] or {}).get("kind") in ("equal", "rounding")


def figures(given: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how often the choice was the fastest and right, and its code safe; how long it took."""
    graphed = [row for row in given if row["code"]["verdict"]]
    return {
        "workloads": len(given),
        "fastest": sum(not faster(row) for row in given),
        "fastest, as chosen now": sum(not faster(row, chosen_now(row)) for row in given),
        "all plain ways timed": sum(all(each.get("median") for each in row["plain"].values()) for row in given),
        "chosen and wrong": sum(row["tuning"]["way"] != "eager" and not _is_right(chosen(row)) for row in given),
        "code written": len(graphed),
        "code safe": sum(row["code"]["verdict"] == "safe" for row in graphed),
        "seconds, median": statistics.median(row["seconds"] for row in given),
        "seconds, most": max(row["seconds"] for row in given),
    }


def below(found: dict[str, Any]) -> list[str]:
    """Return what of the figures is out of its bound."""
    bounds = {
        **{
            name: found[name] >= found["workloads"] - max(1, found["workloads"] // 10)
            for name in ("fastest", "fastest, as chosen now")
        },
        "chosen and wrong": found["chosen and wrong"] == 0,
        "code safe": found["code safe"] == found["code written"],
        "seconds, most": found["seconds, most"] < 180,
    }
    return [f"{name}: {found[name]}" for name, holds in bounds.items() if not holds]


def misses(given: list[dict[str, Any]]) -> list[str]:
    """Return a line for each workload."""
    lines = []
    for row in given:
        plain = ", ".join(f"{name} {1e6 * row['plain'][name].get('median', 0):.0f}" for name in row["plain"])
        lines.append(
            f"{row['id']:13} {faster(row) or 'fastest':16} {row['tuning']['said']} [{plain} us; code {row['code']['verdict']}]"
        )
        lines += [
            f"{'':13} {way['name']}: {way['against_eager'] or way['why']}"
            for way in row["tuning"]["ways"]
            if not _is_right(way)
        ]
    return lines


def main() -> int:
    """Run `run`, `plain` or `keep`, or print the figures."""
    match sys.argv[1:]:
        case ["run", *names]:
            machine = on_gpu.machine(" ".join(["python benchmarks/tuning.py run", *names]))
            on_gpu.write_rows(machine, map(_row, names or WORKLOADS))
            return 0
        case ["plain", name, way, turns]:
            print(json.dumps(_plain(name, way, turns)))
            return 0
        case ["keep", *files]:
            decisions.keep(files, EVIDENCE)
            return 0
    given = rows()
    found = figures(given)
    for name, value in found.items():
        print(f"{name:28} {value}")
    changed = [f"not run as it is now: {row['id']}" for row in given if row["digest"] != decisions.digest(row["id"])]
    for line in (misses(given) if "--misses" in sys.argv else []) + below(found) + changed:
        print(line)
    return int("--check" in sys.argv and bool(below(found) or changed))


if __name__ == "__main__":
    sys.exit(main())
