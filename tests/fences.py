"""The code fences of the skill, and their run on a GPU.

    python tests/fences.py list > fences.json            on any machine, with the project installed
    python tests/fences.py run fences.json > out.json    on a GPU machine, with torch and the standard library only
    python tests/fences.py keep out.json                 back here: adds what still stands in the files to the evidence

A fence opened by "```python run" is executed after PRELUDE in a process of its own; `torch>=X` and `gpus=N` in its info
string say what it needs. tests/evidence/fences.json keeps the result, and a test holds that no such fence lacks one.
"""

from __future__ import annotations

import hashlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import on_gpu

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from cudagraph_skill.corpus.fences import Fence  # noqa: E402
from cudagraph_skill.corpus.fences import fences as found  # noqa: E402
from cudagraph_skill.verify.fences import PRELUDE, runnable  # noqa: E402

PATTERNS = ("SKILL.md", "README.md", "docs/*.md", "references/*.md")
EVIDENCE = ROOT / "tests" / "evidence" / "fences.json"
_DEADLINE_SECONDS = 240


def digest(fence: Fence) -> str:
    """Return a hash of the prelude and this code."""
    return hashlib.sha256((PRELUDE + fence.code).encode()).hexdigest()[:16]


@cache
def fences() -> tuple[Fence, ...]:
    """Return every fence of SKILL.md, README.md, docs/*.md and references/*.md."""
    paths = [path.relative_to(ROOT).as_posix() for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]
    return tuple(found(ROOT, paths))


def _listed() -> list[dict[str, Any]]:
    return [{**fence._asdict(), "digest": digest(fence)} for fence in runnable(ROOT, PATTERNS)]


def _command(job: dict[str, Any], folder: Path) -> list[str]:
    """Run a fence in a fresh interpreter, or in one for each GPU; from a file, because Triton reads a function's source."""
    script = folder / "fence.py"
    several = on_gpu.gpus(job["info"]) > 1
    device = "import os, torch; torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n" if several else ""
    script.write_text(device + PRELUDE + job["code"])
    return on_gpu.python(job["info"], str(script))


def _run_all(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    lacking = {job["digest"]: on_gpu.lacks(job["info"].removeprefix("python run ")) for job in jobs}
    results = [{**job, "status": "not run", "why": lacking[job["digest"]]} for job in jobs if lacking[job["digest"]]]
    for ended in on_gpu.each([job for job in jobs if not lacking[job["digest"]]], _command, _DEADLINE_SECONDS):
        results.append({**ended.job, "status": "passed", "seconds": ended.seconds})
        if ended.code != 0:
            results[-1].update(status="failed", output=ended.output[-1500:])
    for row in results:
        del row["code"]
    machine = on_gpu.machine("python tests/fences.py run fences.json")
    return {**machine, "results": sorted(results, key=lambda row: (row["path"], row["line"]))}


def _keep(run: dict[str, Any]) -> None:
    """Add a run to the evidence: a fence keeps its newest result under its current place; a changed one loses it."""
    current = {job["digest"]: {"path": job["path"], "line": job["line"]} for job in _listed()}
    runs = [*(json.loads(EVIDENCE.read_text()) if EVIDENCE.exists() else []), run]
    for number, older in enumerate(runs):
        newer = {row["digest"] for later in runs[number + 1 :] for row in later["results"] if row["status"] != "not run"}
        older["results"] = [row | current[row["digest"]] for row in older["results"] if row["digest"] in current.keys() - newer]
    EVIDENCE.write_text(json.dumps([kept_run for kept_run in runs if kept_run["results"]], indent=1) + "\n")


def main() -> None:
    """Run `list`, `run FILE` or `keep FILE`, and print JSON."""
    if sys.argv[1:] == ["list"]:
        print(json.dumps(_listed(), indent=0))
        return
    if len(sys.argv) != 3 or sys.argv[1] not in ("run", "keep"):
        sys.exit(__doc__)
    data = json.loads(Path(sys.argv[2]).read_text())
    if sys.argv[1] == "keep":
        _keep(data)
    else:
        print(json.dumps(_run_all(data), indent=1))


if __name__ == "__main__":
    main()
