"""The code fences of the skill, and their run on a GPU.

    python tests/fences.py list > fences.json            on any machine, with the project installed
    python tests/fences.py run fences.json > out.json    on a GPU machine, with torch and the standard library only
    python tests/fences.py keep out.json                 back here: adds what still stands in the files to the evidence

A fence opened by "```python run" is executed after PRELUDE in a process of its own; `torch>=X` and `gpus=N` in its info
string say what it needs. tests/evidence/fences.json keeps the result, and a test holds that no such fence lacks one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

PRELUDE = """\
import torch; from torch import nn; import torch.nn.functional as F
torch.manual_seed(0); device = "cuda"
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
x = torch.randn(32, 64, device="cuda"); y = torch.randn(32, 64, device="cuda")
loss_fn = nn.MSELoss()
loader = [(torch.randn(32, 64), torch.randn(32, 64)) for _ in range(4)]
"""
ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = ROOT / "tests" / "evidence" / "fences.json"
_DEADLINE_SECONDS = 240
_AT_ONCE = 12


class Fence(NamedTuple):
    """A fence: `info` is all after the backticks, `line` the 1-based line of its first line of code."""

    path: str
    line: int
    info: str
    code: str

    @property
    def digest(self) -> str:
        """A name for exactly this code after this prelude."""
        return hashlib.sha256((PRELUDE + self.code).encode()).hexdigest()[:16]


def fences(root: Path = ROOT) -> list[Fence]:
    """Every fence of SKILL.md, README.md and references/*.md."""
    from markdown_it import MarkdownIt

    found: list[Fence] = []
    for path in (root / "SKILL.md", root / "README.md", *sorted((root / "references").glob("*.md"))):
        shown = path.relative_to(root).as_posix()
        tokens = MarkdownIt("commonmark").parse(path.read_text(encoding="utf-8"))
        found += [
            Fence(shown, each.map[0] + 2, each.info.strip(), each.content)
            for each in tokens
            if each.type == "fence" and each.map
        ]
    return found


def _runnable(info: str) -> bool:
    return info.split()[:2] == ["python", "run"]


def _listed() -> list[dict[str, Any]]:
    return [{**fence._asdict(), "digest": fence.digest} for fence in fences() if _runnable(fence.info)]


def _needs(info: str) -> tuple[tuple[int, ...], int]:
    """The torch version and the number of GPUs that an info string asks for."""
    version = re.search(r"torch>=([\d.]+)", info)
    gpus = re.search(r"gpus=(\d+)", info)
    return tuple(map(int, version[1].split("."))) if version else (0,), int(gpus[1]) if gpus else 1


def _start(job: dict[str, Any], folder: Path, gpus: int) -> subprocess.Popen[bytes]:
    """One fence in a fresh interpreter, or one for each GPU; from a file, since Triton reads a function's source."""
    script = folder / "fence.py"
    device = "import os, torch; torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n" if gpus > 1 else ""
    script.write_text(device + PRELUDE + job["code"])
    runner = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}"] if gpus > 1 else []
    with (folder / "output").open("wb") as out:
        return subprocess.Popen(
            [sys.executable, *runner, str(script)],
            cwd=folder,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def _run_all(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    import torch

    have = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    gpus = int(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.count("GPU "))
    results: list[dict[str, Any]] = []
    waiting = list(jobs)
    running: list[tuple[subprocess.Popen[bytes], dict[str, Any], Path, float]] = []
    while waiting or running:
        while waiting and len(running) < _AT_ONCE:
            job = waiting.pop(0)
            version, wanted = _needs(job["info"])
            if version > have or wanted > gpus:
                results.append({**job, "status": "not run", "why": f"needs {job['info'].removeprefix('python run ')}"})
                continue
            folder = Path(tempfile.mkdtemp())
            running.append((_start(job, folder, wanted), job, folder, time.monotonic()))
        for entry in list(running):
            process, job, folder, start = entry
            seconds = time.monotonic() - start
            if process.poll() is None and seconds < _DEADLINE_SECONDS:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            passed = process.wait() == 0
            results.append({**job, "status": "passed" if passed else "failed", "seconds": round(seconds, 1)})
            if not passed:
                results[-1]["output"] = (folder / "output").read_text(errors="replace")[-1500:]
            running.remove(entry)
        time.sleep(0.02)
    for row in results:
        del row["code"]
    return {**_machine(), "results": sorted(results, key=lambda row: (row["path"], row["line"]))}


def _machine() -> dict[str, Any]:
    import torch

    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpus = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "gpus": gpus,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "command": "python tests/fences.py run fences.json",
    }


def _keep(run: dict[str, Any]) -> None:
    """Add a run to the evidence. A fence keeps its newest result; one that has changed since loses it."""
    current = {job["digest"] for job in _listed()}
    runs = [*(json.loads(EVIDENCE.read_text()) if EVIDENCE.exists() else []), run]
    for number, older in enumerate(runs):
        newer = {row["digest"] for later in runs[number + 1 :] for row in later["results"] if row["status"] != "not run"}
        older["results"] = [row for row in older["results"] if row["digest"] in current - newer]
    EVIDENCE.write_text(json.dumps([each for each in runs if each["results"]], indent=1) + "\n")


def main() -> None:
    """`list`, `run FILE` or `keep FILE`; JSON on stdout."""
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
