"""How often `skill check --run` is right about code of public libraries, whose verdicts a plain comparison on a GPU decides.

    python benchmarks/library.py truth [NAME ...] > truth.jsonl  on a GPU machine, with torch, NumPy and the libraries
    python benchmarks/library.py run [NAME ...] > out.jsonl      there as well: the verdicts of `skill check --run`
    python benchmarks/library.py keep FILE ...                   back here: adds both to benchmarks/evidence/library.json
    python benchmarks/library.py                                 the figures of that evidence; --misses names what was wrong
    python benchmarks/library.py --check                         exit 1 if one is worse than in floors.yaml, or a case changed

Each numbered file of benchmarks/library has make(device), which returns a dict: `fn`, `inputs` (fresh arguments in each call),
`kind`; `# needs: NAME` names each package beyond torch. NAME may be a beginning. Cases without their packages are left out.

The truth uses none of our tools (library/lockstep.py): one process makes ten eager calls from a seed; a second repeats it; a
third starts with parameters and arguments moved by one in the last place; a fourth replays calls 4 to 10 from a graph.
Distances are root mean squares of the difference, over that of eager, for each tensor of the results of those calls and of what
`fn` holds at the end. A case is `noisy` where the first two differ by more than 1 %, `chaotic` where the third differs by more
than 10 % in a result, so that sizes tell nothing; `safe` where each distance is within the largest of 1e-4 (0.02 in half
precision), five times that of the second, and ten times that of the third; else `silent_wrong`. Of what is held, tensors in
which the third differs by more than 10 % do not count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests"))

import on_gpu  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EVIDENCE = HERE / "evidence" / "library.json"
_WAYS, WARM = ("eager", "again", "moved", "graph"), 3
_CORES = os.cpu_count() or 8
_AT_ONCE, _TOOLS_AT_ONCE, _SECONDS, _PATIENCE_SECONDS = _CORES * 3 // 4, _CORES // 2, 100, 150
_NOISE, _FULL, _HALF, _TIMES_REPEAT, _TIMES_MOVED = 1e-2, 1e-4, 2e-2, 5, 10
_CHAOS = 0.1  # what one in the last place moves by more is made of rounding: a gradient that is zero but for it
_DECIDED = ("safe", "silent_wrong", "capture_error")
_CEILINGS = ("false alarms", "missed")


# The cases ------------------------------------------------------------------------------------------------------------


def cases(beginnings: Iterable[str] = ()) -> list[Path]:
    """Return the programs, or those whose names begin so."""
    wanted = tuple(beginnings) or ("",)
    return [path for path in sorted((HERE / "library").glob("[0-9]*.py")) if path.stem.startswith(wanted)]


def needs(path: Path) -> list[str]:
    """Return the packages that a case needs beyond torch."""
    return re.findall(r"^# needs: (\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def digest(path: Path) -> str:
    """Return a hash of the program."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _there(names: list[str]) -> list[Path]:
    """Return the chosen cases whose packages are installed; say which others there are."""
    chosen = cases(names)
    absent = [path for path in chosen if not all(map(on_gpu.release, needs(path)))]
    for path in absent:
        print(f"left out: {path.stem} needs {', '.join(needs(path))}", file=sys.stderr)
    return [path for path in chosen if path not in absent]


def _about(what: str, names: list[str], chosen: list[Path]) -> dict[str, Any]:
    """Return what the run is, and its machine with the releases of the libraries."""
    libraries = {name: on_gpu.release(name) for name in sorted({name for path in chosen for name in needs(path)})}
    return {"what": what, **on_gpu.machine(" ".join(["python benchmarks/library.py", what, *names])), "libraries": libraries}


# The truth ------------------------------------------------------------------------------------------------------------


def truth(chosen: list[Path]) -> Iterator[dict[str, Any]]:
    """Observe each case in its four ways, several at once, and compare them; yield in the order in which cases are done."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            {"path": path, "way": way, "target": Path(folder) / f"{path.stem}.{way}.pt"} for path in chosen for way in _WAYS
        ]
        seen: dict[Path, dict[str, Any]] = {path: {} for path in chosen}
        for ended in on_gpu.each(jobs, _observing, _SECONDS, _AT_ONCE):
            path = ended.job["path"]
            seen[path][ended.job["way"]] = _seen(ended)
            if len(seen[path]) == len(_WAYS):
                yield {"id": path.stem, "digest": digest(path), **judged(seen.pop(path))}


def _observing(job: dict[str, Any], _: Path) -> list[str]:
    return [sys.executable, str(HERE / "library" / "lockstep.py"), str(job["path"]), job["way"], str(job["target"])]


def _seen(ended: on_gpu.Ended) -> dict[str, Any]:
    """Return what a process wrote; how it ended where it wrote nothing."""
    import torch

    if ended.job["target"].exists():
        seen: dict[str, Any] = torch.load(ended.job["target"], weights_only=False)
        return seen
    said = f"no answer in {_SECONDS} s" if ended.code is None else ended.output[-200:]
    error = {"stage": "unknown", "type": f"exit {ended.code}", "said": said, "line": None, "deepest": ""}
    return {"results": [], "held": {}, "error": error}


def judged(seen: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the label of a case, and what it rests on."""
    failed = next((seen[way]["error"] for way in _WAYS[:3] if seen[way]["error"]), None)
    if failed:
        return {"label": "error_in_eager", **failed}
    repeat, moved = (distances(seen["eager"], seen[way]) for way in ("again", "moved"))
    spread = {"repeat": _largest(repeat), "moved": _largest(moved)}
    failed = seen["graph"]["error"]
    if failed:
        label = "replay_error" if failed["stage"] == "replay" else "capture_error"
        return {"label": label, **failed, **spread}
    counted = [name for name in repeat if name.startswith("result") or moved[name] <= _CHAOS]
    graph = {name: value for name, value in distances(seen["eager"], seen["graph"]).items() if name in counted}
    noisy = [name for name in counted if repeat[name] > _NOISE]
    chaotic = [name for name in counted if moved[name] > _CHAOS]
    floor = _HALF if _in_half(seen["eager"]) else _FULL
    limits = {name: max(floor, _TIMES_REPEAT * repeat[name], _TIMES_MOVED * moved[name]) for name in counted}
    wrong = [name for name in counted if graph[name] > limits[name]]
    nearest = sorted(counted, key=lambda name: graph[name] / limits[name], reverse=True)[:3]
    return {
        "label": "noisy" if noisy else "silent_wrong" if wrong else "chaotic" if chaotic else "safe",
        **spread,
        "noisy": noisy[:3],
        "chaotic": chaotic[:3],
        "graph": _largest(graph),
        "wrong": f"{len(wrong)} of {len(counted)}",
        "nearest": {name: {"distance": graph[name], "limit": limits[name]} for name in nearest},
    }


def distances(eager: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Return for each path the largest distance of the calls after the warm-up, or that of what is held at the end."""
    found: dict[str, float] = {}
    for ours, theirs in [*zip(eager["results"], other["results"], strict=True)][WARM:]:
        for name, tensor in ours.items():
            found[f"result{name}"] = max(found.get(f"result{name}", 0.0), _distance(tensor, theirs.get(name)))
    held = {f"held{name}": _distance(tensor, other["held"].get(name)) for name, tensor in eager["held"].items()}
    return {name: float(f"{value:.3g}") for name, value in {**found, **held}.items()}


def _distance(ours: Any, theirs: Any) -> float:
    """Return the relative distance of two tensors; infinite where their shapes differ, or one has NaN or infinities alone."""
    import torch

    if theirs is None or ours.shape != theirs.shape:
        return float("inf")
    ours, theirs = (torch.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in (ours, theirs))
    ours, theirs = ours.double(), theirs.double()
    apart = torch.where((ours == theirs) | (ours.isnan() & theirs.isnan()), 0.0, ours - theirs)
    if not apart.any():
        return 0.0
    if not apart.isfinite().all():
        return float("inf")
    return float(apart.square().mean().sqrt() / ours.nan_to_num().square().mean().sqrt().clamp(min=1e-8))


def _in_half(seen: dict[str, Any]) -> bool:
    kept = [tensor for each in (*seen["results"], seen["held"]) for tensor in each.values()]
    return any(tensor.is_floating_point() and tensor.element_size() == 2 for tensor in kept)


def _largest(given: dict[str, float]) -> float:
    return max(given.values(), default=0.0)


# The tool -------------------------------------------------------------------------------------------------------------


def run(chosen: list[Path]) -> Iterator[dict[str, Any]]:
    """Let `skill check --run` examine each case, several at once."""
    with ThreadPoolExecutor(_TOOLS_AT_ONCE) as pool:
        for examined in as_completed([pool.submit(_examined, path) for path in chosen]):
            yield examined.result()


def _examined(path: Path) -> dict[str, Any]:
    tool = [sys.executable, str(ROOT / "tools" / "check.py"), "--run", "--json", "--deadline", str(_SECONDS), str(path)]
    start = time.monotonic()
    try:
        done = subprocess.run(
            tool, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_SECONDS, check=False
        )
        report: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        report = {"verdict": "none", "summary": type(error).__name__}
    return {
        "id": path.stem,
        "digest": digest(path),
        "verdict": report.get("verdict") or ("misuse" if "error" in report else "none"),
        "lines": [[item["line"], item["id"], item["observed"]] for item in report.get("findings", [])[:5]],
        "seconds": round(time.monotonic() - start, 1),
        "said": str(report.get("summary") or report.get("error", "")).replace(f"{ROOT}/", "")[:200],
    }


# The figures ----------------------------------------------------------------------------------------------------------


def keep(files: list[str], evidence: Path = EVIDENCE) -> None:
    """Add runs to the evidence: each case keeps its newest truth and its newest verdict, with the machine of each."""
    runs = json.loads(evidence.read_text(encoding="utf-8")) if evidence.exists() else []
    runs += [on_gpu.read_rows(file, "rows") for file in files]
    taken: set[tuple[str, str]] = set()
    for part in reversed(runs):
        part["rows"] = [row for row in part["rows"] if (part["what"], row["id"]) not in taken]
        taken |= {(part["what"], row["id"]) for row in part["rows"]}
    evidence.write_text(json.dumps([part for part in runs if part["rows"]], indent=1) + "\n", encoding="utf-8")


def rows_of(evidence: list[dict[str, Any]], what: str) -> dict[str, dict[str, Any]]:
    """Return the rows of `truth` or `run` by case, without those of cases that are no more."""
    known = {path.stem for path in cases()}
    return {row["id"]: row for part in evidence if part["what"] == what for row in part["rows"] if row["id"] in known}


def figures(evidence: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many cases there are of each label, and percentages of the verdicts."""
    verdicts = rows_of(evidence, "run")
    pairs = [(row, verdicts[name]) for name, row in rows_of(evidence, "truth").items() if name in verdicts]
    by_label = {label: [answer for row, answer in pairs if row["label"] == label] for label in (*_DECIDED, "noisy", "chaotic")}
    known = [(row, answer) for row, answer in pairs if row["label"] in _DECIDED]
    decided = [(row, answer) for row, answer in known if answer["verdict"] in _DECIDED]
    fails = [(row, answer) for row, answer in known if row["label"] == "capture_error" and row["line"]]
    unsafe = [*by_label["silent_wrong"], *by_label["capture_error"]]
    return {
        "cases": len(pairs),
        **{label: len(answers) for label, answers in by_label.items()},
        "decided": share(answer["verdict"] in _DECIDED for _, answer in known),
        "decided verdicts right": share(answer["verdict"] == row["label"] for row, answer in decided),
        "false alarms": share(answer["verdict"] in {"silent_wrong", "capture_error"} for answer in by_label["safe"]),
        "missed": share(answer["verdict"] == "safe" for answer in unsafe),
        "noisy called so": share(_called_noisy(answer) for answer in by_label["noisy"]),
        "failing line first": share(_first(answer) == row["line"] for row, answer in fails),
    }


def _called_noisy(answer: dict[str, Any]) -> bool:
    """Return whether a verdict says that eager does not repeat itself; one that names what freezes says so, too."""
    said = answer["said"]
    return answer["verdict"] == "not_repeatable" or "never repeats itself" in said or "within its own spread" in said


def _first(row: dict[str, Any]) -> int:
    return next((int(line[0]) for line in row["lines"]), 0)


def share(given: Iterable[bool]) -> float | None:
    """Return the percentage of what is true; None of nothing."""
    answers = list(given)
    return round(100 * sum(answers) / len(answers), 1) if answers else None


def misses(evidence: list[dict[str, Any]]) -> list[str]:
    """List the cases with another verdict than the truth, and failing captures with another first line."""
    verdicts, missed = rows_of(evidence, "run"), []
    for name, row in rows_of(evidence, "truth").items():
        answer, right = verdicts.get(name), row["label"].replace("noisy", "not_repeatable")
        if answer and right == "not_repeatable" and _called_noisy(answer):
            continue
        if answer and answer["verdict"] != right and right != "chaotic":
            missed.append(f"{name}: {answer['verdict']}, is {right}: {answer['said']}")
        elif answer and right == "capture_error" and row["line"] not in {None, _first(answer)}:
            missed.append(f"{name}: line {_first(answer)} first, is {row['line']}: {row['deepest']}")
    return missed


def stale(evidence: list[dict[str, Any]]) -> list[str]:
    """Return the cases without a row of their present text, in the truth or in the verdicts."""
    rows = [rows_of(evidence, what) for what in ("truth", "run")]
    return [path.stem for path in cases() if any(row.get(path.stem, {}).get("digest") != digest(path) for row in rows)]


def below(results: dict[str, Any]) -> list[str]:
    """Return the figures that are worse than their floor."""
    import yaml

    broken = []
    for key, floor in yaml.safe_load((HERE / "floors.yaml").read_text(encoding="utf-8"))["library"].items():
        value = results[key]
        if value is None or (value > floor if key in _CEILINGS else value < floor):
            broken.append(f"{key}: {value}, must be {floor}")
    return broken


def main() -> int:
    """Run `truth`, `run` or `keep`, or print the figures."""
    os.environ.setdefault("OMP_NUM_THREADS", "2")  # several processes share the machine
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded: do not wait for a network
    match sys.argv[1:]:
        case ["truth" | "run" as what, *names]:
            chosen = _there(names)
            on_gpu.write_rows(_about(what, names, chosen), (truth if what == "truth" else run)(chosen))
            return 0
        case ["keep", _, *_]:
            keep(sys.argv[2:])
            return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--evidence", type=Path, default=EVIDENCE)
    args = parser.parse_args()
    evidence = json.loads(args.evidence.read_text(encoding="utf-8"))
    results = figures(evidence)
    for part in evidence:
        print(f"{part['what']}: {len(part['rows'])} cases on {', '.join(part['gpus'])}; torch {part['torch']}; {part['date']}")
    print("\n".join(f"{key:24s} {value}" for key, value in results.items()))
    wrong = below(results) + [f"not run as it is now: {name}" for name in stale(evidence)] if args.check else []
    for line in (*wrong, *(misses(evidence) if args.misses else [])):
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
