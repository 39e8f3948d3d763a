"""How right `skill check` is about programs with known verdicts, how fast it reads folders, and whether anything breaks it.

    python benchmarks/checking.py                      accuracy on the snippets
    python benchmarks/checking.py --split test         only those that were not looked at while the check was tuned
    python benchmarks/checking.py --split test --check   exit 1 if it falls below a floor in floors.yaml
    python benchmarks/checking.py --misses             what was wrong in `split: dev`; of `split: test` only totals are shown
    python benchmarks/checking.py --speed [FOLDER ...]   lines per second beside `ast.parse`; the folder of Python itself first
    python benchmarks/checking.py --fuzz 20000         so many strange programs (tests/test_check_fuzz.py), and what went wrong

A snippet counts as called unsafe where at least one finding is an error or a warning. Such a finding's line is right within one
line of a hazard, neutral within one of a line in `also_ok_lines`, else wrong; a hazard line is found where a finding is within
one line of it. `verdict` is the share whose kind was named: fails at capture, goes silently wrong, safe.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from cudagraph_skill.check import Options, check_paths, output
from cudagraph_skill.check.hazards import hazard
from cudagraph_skill.check.input.source import decoded
from cudagraph_skill.check.input.targets import expand

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
_BATCH = 500  # programs that one process reads
_MEMORY = 1 << 30  # bytes that it may take
NEAR = 1  # lines
KINDS = {"capture_error": "fails", "silent_wrong": "wrong", "safe": "clean"}
COLUMNS = ("file precision", "file recall", "line precision", "line recall", "line F1", "verdict")
_WAYS = ("parse", "every", "plain")
_RUNS = 3


def load(path: Path = HERE / "snippets.json") -> dict[str, dict[str, Any]]:
    """Read the labels by snippet name."""
    labels: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return labels


class Read(NamedTuple):
    """What the check says of one snippet: lines with an error or a warning, each with the ids there, and the verdict."""

    lines: dict[int, set[str]]
    verdict: str


def read(name: str, label: dict[str, Any]) -> Read:
    """Check the captured function of a snippet."""
    path = HERE / "snippets" / f"{name}.py"
    report = check_paths([f"{path}:{label['entry']}"], Options())
    lines: dict[int, set[str]] = {}
    for finding in report.findings:
        if finding.path == str(path) and hazard(finding.id).severity != "info":
            lines.setdefault(finding.line, set()).add(finding.id)
    return Read(lines, output.verdict(report))


def score(snippets: dict[str, dict[str, Any]], miss: Callable[[str], None] = lambda _: None) -> dict[str, float]:
    """Return the columns in per cent."""
    counts = dict.fromkeys(("called", "rightly", "unsafe", "right", "wrong", "hazards", "found", "verdict"), 0)
    for name, label in snippets.items():
        answer = read(name, label)
        unsafe = label["verdict"] != "safe"
        right = {line for line in answer.lines if _near(line, label["hazard_lines"])}
        wrong = {line for line in answer.lines if not _near(line, [*label["hazard_lines"], *label["also_ok_lines"]])}
        missing = [line for line in label["hazard_lines"] if not _near(line, answer.lines)]
        counts["called"] += bool(answer.lines)
        counts["rightly"] += bool(answer.lines) and unsafe
        counts["unsafe"] += unsafe
        counts["right"] += len(right)
        counts["wrong"] += len(wrong)
        counts["hazards"] += len(label["hazard_lines"])
        counts["found"] += len(label["hazard_lines"]) - len(missing)
        named = answer.verdict == KINDS[label["verdict"]]
        counts["verdict"] += named
        if wrong or missing or not named or bool(answer.lines) != unsafe:
            extra = {line: sorted(answer.lines[line]) for line in sorted(wrong)}
            miss(f"{name} ({label['cause']}): {label['verdict']}, said {answer.verdict}; not found {missing}, wrong {extra}")
    precision, recall = _share(counts["right"], counts["right"] + counts["wrong"]), _share(counts["found"], counts["hazards"])
    values = (
        _share(counts["rightly"], counts["called"]),
        _share(counts["rightly"], counts["unsafe"]),
        precision,
        recall,
        2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        _share(counts["verdict"], len(snippets)),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _near(line: int, others: Any) -> bool:
    return any(abs(line - other) <= NEAR for other in others)


def _share(part: int, whole: int) -> float:
    """Return a share in per cent, 100 if there was nothing to find."""
    return 100 * part / whole if whole else 100.0


def accuracy(args: argparse.Namespace) -> int:
    """Print the table by split; return 1 if a floor is broken."""
    snippets = load()
    if args.misses:
        score({name: label for name, label in snippets.items() if label["split"] == "dev"}, print)
    groups = {split: {name: label for name, label in snippets.items() if label["split"] == split} for split in ("dev", "test")}
    groups = {split: group for split, group in groups.items() if args.split in (None, split)}
    print(f"{'split':8}{'snippets':>9}{'unsafe':>8}" + "".join(f"{column:>16}" for column in COLUMNS))
    rows = {split: score(group) for split, group in groups.items()}
    for split, row in rows.items():
        unsafe = sum(label["verdict"] != "safe" for label in groups[split].values())
        print(f"{split:8}{len(groups[split]):>9}{unsafe:>8}" + "".join(f"{row[column]:>15.1f}%" for column in COLUMNS))
    floors = yaml.safe_load((HERE / "floors.yaml").read_text(encoding="utf-8"))["check"]
    ours = rows.get("test", {})
    broken = [
        f"{name} is {ours[name]:.1f}, its floor is {floor}" for name, floor in floors.items() if ours and ours[name] < floor
    ]
    if args.check and broken:
        print("\n".join(broken), file=sys.stderr)
    return int(args.check and bool(broken))


def files(folder: str) -> list[str]:
    """List the files of a folder that the check reads."""
    return [source.path for source in expand([folder], Options())]


def once(way: str, folder: str) -> tuple[float, str]:
    """Time one way through a folder; return the seconds and a summary of the result."""
    paths = files(folder)
    start = time.perf_counter()
    if way == "parse":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sum(map(_parses, paths)), ""
    report = check_paths([folder], Options(every=way == "every"))
    seconds = time.perf_counter() - start
    failed = [note for note in report.notes if "this check failed" in note or "the process that read it" in note]
    return seconds, f"{len(report.regions)} regions, {len(report.findings)} findings, {len(failed)} mistakes of ours"


def _parses(path: str) -> float:
    start = time.perf_counter()
    with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        ast.parse(decoded(Path(path).read_bytes()).text)
    return time.perf_counter() - start


def speed(folders: list[str]) -> None:
    """Print a row for each way through each folder; the ways take turns, each time in a fresh process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"Python {platform.python_version()}, {platform.machine()}, {cores} cores; median of {_RUNS}, least and most")
    for folder in folders:
        paths = files(folder)
        lines = sum(Path(path).read_bytes().count(b"\n") for path in paths)
        times: dict[str, list[float]] = {way: [] for way in _WAYS}
        led = dict.fromkeys(_WAYS, "")
        for _ in range(_RUNS):
            for way in _WAYS:
                command = [sys.executable, __file__, "--time", way, folder]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                seconds, led[way] = json.loads(done.stdout)
                times[way].append(seconds)
        base = statistics.median(times["parse"])
        print(f"{folder}: {len(paths)} files, {lines} lines")
        for way, name in zip(_WAYS, ("ast.parse, one core", "skill check --all", "skill check"), strict=True):
            middle = statistics.median(times[way])
            span = f"{min(times[way]):.2f} to {max(times[way]):.2f}"
            print(f"  {name:<22}{middle:>8.2f} s ({span}){lines / middle:>12,.0f} lines/s{middle / base:>8.2f}x  {led[way]}")


def fuzz(number: int) -> int:
    """Print each defect with its count and its shortest program; return 1 if there is any."""
    start, largest = time.perf_counter(), 0
    wrong: dict[str, tuple[int, str, str]] = {}
    with Pool(maxtasksperchild=1) as pool:
        for found, kilobytes in pool.imap_unordered(_fuzzed, range(0, number, _BATCH)):
            largest = max(largest, kilobytes)
            for defect, (times, where, text) in found.items():
                known = wrong.get(defect, (0, where, text))
                wrong[defect] = known[0] + times, known[1], min(known[2], text, key=len)
    print(f"{number} programs in {time.perf_counter() - start:.0f} s, {len(wrong)} kinds of mistakes")
    print(f"the largest process: {largest // 1024} MB for {_BATCH} programs, of at most {_MEMORY >> 20}")
    for defect, (times, where, text) in sorted(wrong.items(), key=lambda item: -item[1][0]):
        print(f"{times} times: {defect} (first: {where})\n{text}")
    return int(bool(wrong))


def _fuzzed(first: int) -> tuple[dict[str, tuple[int, str, str]], int]:
    """Return what goes wrong in a batch of programs, read under a bound on memory, and the kilobytes that it took."""
    sys.path.append(str(HERE.parent / "tests"))
    import test_check_fuzz

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    return test_check_fuzz.fuzz(first, first + _BATCH), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    """Run what was asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--split", choices=("dev", "test"))
    options.add_argument("--check", action="store_true", help="exit 1 where the test split is below benchmarks/floors.yaml")
    options.add_argument("--misses", action="store_true")
    options.add_argument("--speed", nargs="*", metavar="FOLDER")
    options.add_argument("--fuzz", type=int, metavar="N")
    options.add_argument("--time", nargs=2, help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.time:
        print(json.dumps(once(*args.time)))
        return 0
    if args.fuzz:
        return fuzz(args.fuzz)
    if args.speed is not None:
        speed([str(Path(ast.__file__).parent), *args.speed])
        return 0
    return accuracy(args)


if __name__ == "__main__":
    sys.exit(main())
