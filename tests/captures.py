"""Targets that users may point `skill check --run` at, good and bad, each through the command itself on a GPU.

    python tests/captures.py run [NAME ...] > out.json   on a GPU machine, with torch and the standard library only;
                                                         cases with `packages` need those too, importable
    python tests/captures.py keep out.json               back here: becomes tests/evidence/captures.json

tests/captured/cases.json has for each case the arguments, the verdicts and exit codes that are right, and why; `line` must be
the first finding of a failed capture, and among the findings of a wrong replay. After a case with `plain` that command, run
alone, must leave the same weights and random states; after one with `gone` no process of that name may be left; `note` must be
in one of its notes.
"""

from __future__ import annotations

import hashlib
import json
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
_AT_ONCE, _AT_ONCE_WITH_PACKAGES, _DEADLINE_SECONDS, _PATIENCE_SECONDS = 10, 3, 60, 180  # with packages: 9 GB each


def cases() -> list[dict[str, Any]]:
    """Return every case."""
    known: list[dict[str, Any]] = json.loads((PROGRAMS / "cases.json").read_text(encoding="utf-8"))
    return known


def digest() -> str:
    """Return a hash of the cases and programs."""
    files = sorted(path for path in PROGRAMS.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    content = b"".join(path.relative_to(PROGRAMS).as_posix().encode() + path.read_bytes() for path in files)
    return hashlib.sha256(content).hexdigest()[:16]


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
            return {"name": case["name"], "verdict": "", "wrong": f"no answer in {_PATIENCE_SECONDS} s"}
        seconds = round(time.monotonic() - start, 1)
        report = _json(done.stdout)
        verdict = str(report.get("verdict") or ("misuse" if "error" in report else "none"))
        row = {"name": case["name"], "verdict": verdict, "exit": done.returncode, "seconds": seconds}
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


def _run(names: list[str]) -> dict[str, Any]:
    chosen = [case for case in cases() if not names or case["name"] in names]
    alone = [case for case in chosen if "gone" in case]
    large = [case for case in chosen if "packages" in case]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        rows = list(pool.map(answer, [case for case in chosen if case not in alone and case not in large]))
    with ThreadPoolExecutor(_AT_ONCE_WITH_PACKAGES) as pool:
        rows += pool.map(answer, large)
    rows += [answer(case) for case in alone]
    packages = {name: on_gpu.release(name) for name in sorted({name for case in large for name in case["packages"]})}
    return {**on_gpu.machine("python tests/captures.py run"), **packages, "digest": digest(), "results": rows}


if __name__ == "__main__":
    on_gpu.run_or_keep(_run, EVIDENCE, __doc__)
