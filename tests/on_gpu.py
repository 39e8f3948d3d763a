"""Programs in processes of their own, several at once, each under a deadline; and what the machine is that ran them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_AT_ONCE = 12


class Ended(NamedTuple):
    """How a program ended: `code` is None where the deadline ended it; `output` is stdout and stderr together."""

    job: dict[str, Any]
    code: int | None
    seconds: float
    output: str


def machine(command: str) -> dict[str, Any]:
    """Return GPU, driver, torch, CUDA, Python and date of this run."""
    import torch

    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpus = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "gpus": gpus,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "command": command,
    }


def release(package: str) -> str:
    """Return the release of an installed package; "" where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def run_or_keep(run: Callable[[list[str]], dict[str, Any]], evidence: Path, usage: str | None) -> None:
    """Run `run [WORD ...]`, which prints a run, or `keep FILE ...`, which keeps runs of parts as one."""
    match sys.argv[1:]:
        case ["run", *words]:
            _show(run(words))
        case ["keep", *files] if files:
            evidence.write_text(json.dumps(_joined(files), indent=1) + "\n")
        case _:
            sys.exit(usage)


def _joined(files: list[str]) -> dict[str, Any]:
    """Return the runs of parts of one suite as one run, with what the parts say of the machine."""
    parts = [json.loads(Path(file).read_text()) for file in files]
    if len({part.get("digest") for part in parts}) > 1:
        sys.exit("the files are runs of different programs: run them again")
    joined = {name: value for part in parts for name, value in part.items()}
    return {**joined, "results": [row for part in parts for row in part["results"]]}


def _show(run: dict[str, Any]) -> None:
    print(json.dumps(run, indent=1))
    wrong = [f"{row['name']}: {row['wrong']}" for row in run["results"] if row["wrong"]]
    right = len(run["results"]) - len(wrong)
    print("\n".join([*wrong, f"{right} of {len(run['results'])} right"]), file=sys.stderr)


def write_rows(run: dict[str, Any], rows: Iterable[dict[str, Any]]) -> None:
    """Print what a run is, then each row as it comes, a line of JSON each: a run that is cut off leaves what it has done."""
    for line in itertools.chain([run], rows):
        print(json.dumps(line), flush=True)


def read_rows(file: str, name: str = "results") -> dict[str, Any]:
    """Return a run that `write_rows` printed, with its rows under `name`."""
    run, *rows = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
    return {**run, name: rows}


def lacks(needs: str) -> str:
    """Return "needs …" if this machine lacks the `torch>=X` or `gpus=N` of `needs`, else ""."""
    import torch

    have = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    version = re.search(r"torch>=([\d.]+)", needs)
    enough = not version or have >= tuple(map(int, version[1].split(".")))
    return "" if enough and gpus(needs) <= torch.cuda.device_count() else f"needs {needs}"


def gpus(needs: str) -> int:
    """Return how many GPUs `needs` asks for."""
    asked = re.search(r"gpus=(\d+)", needs)
    return int(asked[1]) if asked else 1


def python(needs: str, *arguments: str) -> list[str]:
    """Return the command that starts one interpreter, or one for each GPU."""
    count = gpus(needs)
    runner = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"] if count > 1 else []
    return [sys.executable, *runner, *arguments]


def each(
    jobs: list[dict[str, Any]], command: Callable[[dict[str, Any], Path], list[str]], deadline: float, at_once: int = _AT_ONCE
) -> Iterator[Ended]:
    """Run `command(job, folder)` for each job in a fresh folder; yield in the order in which they end."""
    waiting = list(jobs)
    running: list[tuple[subprocess.Popen[bytes], dict[str, Any], Path, float]] = []
    while waiting or running:
        while waiting and len(running) < at_once:
            job, folder = waiting.pop(0), Path(tempfile.mkdtemp())
            running.append((_start(command(job, folder), folder), job, folder, time.monotonic()))
        for entry in list(running):
            process, job, folder, start = entry
            seconds = time.monotonic() - start
            if process.poll() is None and seconds < deadline:
                continue
            late = process.poll() is None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            output = (folder / "output").read_text(errors="replace")
            running.remove(entry)
            yield Ended(job, None if late else code, round(seconds, 1), output)
        time.sleep(0.02)


def _start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "output").open("wb") as out:
        return subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
