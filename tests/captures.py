"""Targets that users may point `skill check --run` at, good and bad, each through the command itself on a GPU.

    python tests/captures.py run [NAME ...] > out.json   on a GPU machine, with torch and the standard library only;
                                                         cases with `packages` need those too, importable, and those
                                                         that need several GPUs are left out where there are fewer;
                                                         a NAME may be small, large, ranks or alone: see `kind`
    python tests/captures.py keep out.json ...           back here: adds them to tests/evidence/captures.json

tests/captured/cases.json has for each case the arguments, the verdicts and exit codes that are right, and why; `line` must be
the first finding of a failed capture, and among the findings of a wrong replay. After a case with `plain` that command, run
alone, must leave the same weights and random states; after one with `gone` no process of that name may be left; `note` must be
in one of its notes.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import on_gpu

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "captured"
EVIDENCE = HERE / "evidence" / "captures.json"
_AT_ONCE, _AT_ONCE_WITH_PACKAGES, _RANKS_AT_ONCE = 10, 3, 3  # with packages: 9 GB each
_DEADLINE_SECONDS, _PATIENCE_SECONDS = 60, 180


def cases() -> list[dict[str, Any]]:
    """Return every case."""
    known: list[dict[str, Any]] = json.loads((PROGRAMS / "cases.json").read_text(encoding="utf-8"))
    return known


def digest(case: dict[str, Any]) -> str:
    """Return a hash of what a case is, and of the programs that it names or that those import."""
    asked = json.dumps({name: value for name, value in case.items() if name != "why"}, sort_keys=True)
    files = sorted(path for path in PROGRAMS.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    named = [path for path in files if _top(path) in asked]
    sources = "".join(path.read_text(encoding="latin-1") for path in named)
    imported = [
        path for path in files if path not in named and re.search(rf"^(from|import) {_top(path)}\b", sources, re.MULTILINE)
    ]
    content = b"".join(path.relative_to(PROGRAMS).as_posix().encode() + path.read_bytes() for path in [*named, *imported])
    return hashlib.sha256(asked.encode() + content).hexdigest()[:16]


def _top(path: Path) -> str:
    """Return the name of a program, or of the folder that it lies in."""
    return Path(path.relative_to(PROGRAMS).parts[0]).stem


def kept() -> dict[str, dict[str, Any]]:
    """Return the rows of the evidence by case."""
    return {row["name"]: row for run in json.loads(EVIDENCE.read_text(encoding="utf-8")) for row in run["results"]}


def keep(files: list[str]) -> None:
    """Add runs to the evidence: each case keeps its newest row, with its machine."""
    runs = json.loads(EVIDENCE.read_text(encoding="utf-8")) if EVIDENCE.exists() else []
    runs += [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    known, taken = {case["name"] for case in cases()}, set[str]()
    for run in reversed(runs):
        run["results"] = [row for row in run["results"] if row["name"] in known - taken]
        taken |= {row["name"] for row in run["results"]}
    EVIDENCE.write_text(json.dumps([run for run in runs if run["results"]], indent=1) + "\n", encoding="utf-8")


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Run one case; `wrong` says what of its answer is not as it must be, "" where all is."""
    with tempfile.TemporaryDirectory() as folder:
        if "copy" in case:
            shutil.copy(PROGRAMS / case["copy"][0], Path(folder) / case["copy"][1])
        deadline = _DEADLINE_SECONDS * (2 if "packages" in case else 1)
        bound = [] if "--deadline" in case["args"] else ["--deadline", str(deadline)]
        command = [
            sys.executable,
            str(HERE.parent / "tools" / "check.py"),
            "--run",
            "--json",
            *bound,
            *_words(case["args"], folder),
        ]
        start = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=HERE, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return {"name": case["name"], "digest": digest(case), "verdict": "", "wrong": f"no answer in {_PATIENCE_SECONDS} s"}
        seconds = round(time.monotonic() - start, 1)
        report = _json(done.stdout)
        verdict = str(report.get("verdict") or ("misuse" if "error" in report else "none"))
        row = {"name": case["name"], "digest": digest(case), "verdict": verdict, "exit": done.returncode, "seconds": seconds}
        return {**row, "wrong": _wrong(case, verdict, done.returncode, report) or _left(case, folder)}


def _words(words: list[str], folder: str) -> list[str]:
    command = words.index("--") if "--" in words else len(words)
    named = [*words[:command], *(sys.executable if word == "python" else word for word in words[command:])]
    return [word.replace("{folder}", folder) for word in named]


def _json(output: bytes) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(output)
    except ValueError:
        return {}
    return report


def _wrong(case: dict[str, Any], verdict: str, code: int, report: dict[str, Any]) -> str:
    if verdict not in case["verdict"] and not (verdict == "misuse" and "none" in case["verdict"]):
        return f"{verdict}, must be {' or '.join(case['verdict'])}: {report.get('summary') or report.get('error')}"
    if code not in case["exit"]:
        return f"exit code {code}, must be {case['exit']}"
    if case.get("note", "") not in " ".join(report.get("notes", [])):
        return f"notes {report.get('notes')}, must have {case['note']}"
    lines = [finding["line"] for finding in report.get("findings", [])]
    if "line" not in case or verdict not in ("capture_error", "silent_wrong"):
        return ""
    wanted = lines[:1] if verdict == "capture_error" else lines
    return "" if case["line"] in wanted else f"lines {lines}, must have {case['line']}"


def _left(case: dict[str, Any], folder: str) -> str:
    """Describe what the case wrongly left behind, on the machine or in the user's program; "" if nothing."""
    if "gone" in case and subprocess.run(["pgrep", "-f", case["gone"]], capture_output=True, check=False).returncode == 0:
        return f"a process is left: {case['gone']}"
    if "plain" not in case:
        return ""
    subprocess.run([sys.executable, *_words(case["plain"], folder)[1:]], cwd=HERE, capture_output=True, check=False)
    ends = [(Path(folder) / name).read_text().partition(" bits")[0] for name in ("with", "without")]
    return "" if ends[0] == ends[1] else f"ended with {ends[0]}, without the check with {ends[1]}"


def kind(case: dict[str, Any]) -> str:
    """Return how a case runs: alone, on several GPUs, with large packages, or beside many others."""
    if "gone" in case:
        return "alone"
    if "needs" in case:
        return "ranks"
    return "large" if "packages" in case else "small"


def _run(names: list[str]) -> dict[str, Any]:
    chosen = [case for case in cases() if not names or case["name"] in names or kind(case) in names]
    chosen = [case for case in chosen if not on_gpu.lacks(case.get("needs", ""))]
    rows: list[dict[str, Any]] = []
    for of_kind, at_once in (("small", _AT_ONCE), ("large", _AT_ONCE_WITH_PACKAGES), ("ranks", _RANKS_AT_ONCE), ("alone", 1)):
        with ThreadPoolExecutor(at_once) as pool:
            rows += pool.map(answer, [case for case in chosen if kind(case) == of_kind])
    packages = {name: on_gpu.release(name) for name in sorted({name for case in chosen for name in case.get("packages", [])})}
    return {**on_gpu.machine(" ".join(["python tests/captures.py run", *names])), **packages, "results": rows}


if __name__ == "__main__":
    if sys.argv[1:2] == ["keep"] and len(sys.argv) > 2:
        keep(sys.argv[2:])
    else:
        on_gpu.run_or_keep(_run, EVIDENCE, __doc__)
