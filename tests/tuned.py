"""`skill tune` on a GPU where it is not one callable on a quiet machine: calls in programs, little memory, others, the server.

    python tests/tuned.py run [NAME ...] > out.jsonl   on a GPU machine, with torch; `served` needs the project installed, too
    python tests/tuned.py keep FILE ...                back here: joins rows into tests/evidence/tuned.json

A program is tuned in a copy, its file changed with --apply, and run once more: it has to print the losses that it printed
before, equal or within rounding as the choice says. A row has what was said, and in `wrong` what of it is not as it must be.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import on_gpu

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
TOOLS = HERE.parent / "tools"
PROGRAMS = HERE / "tune_programs"
EVIDENCE = HERE / "evidence" / "tuned.json"
_PATIENCE_SECONDS = 900
_BUSY = """
import torch
x = torch.randn(8192, 8192, device="cuda")
print("begun", flush=True)
while True:
    for _ in range(20):
        x @ x
    torch.cuda.synchronize()
"""


class Program(NamedTuple):
    """A call of a program: its file, the target, ways that must not be right, and words of the reason.

    `rounding` is how far losses may be apart, relative to each, where the choice differs from eager by rounding.
    """

    file: str
    target: str
    refused: tuple[str, ...] = ()
    because: str = ""
    rounding: float = 1e-2


CASES = {
    "a step of a trainer class": Program("trainer.py", "Trainer.step"),
    "a step nested in main, with autocast and dropout": Program("nested.py", "main.train_step", rounding=0.1),  # other masks
    "a forward pass whose backward comes after it": Program(
        "train_gpt.py", "small_gpt.network:GPT.forward", ("manual", "manual over compile"), "gradients to compute"
    ),
    "scores in inference mode": Program("score.py", "Scorer.score"),
}
OTHERS = {"little memory": "little_memory.py", "beside another program": "step.py", "served": "step.py"}


def digest(name: str) -> str:
    """Return a hash of a case: its program, the modules that this may import, and what is expected."""
    case = CASES.get(name)
    files = [PROGRAMS / OTHERS[name]] if case is None else [PROGRAMS / case.file, *sorted(PROGRAMS.glob("*/*.py"))]
    texts = [repr(case), _BUSY, *(path.read_text(encoding="utf-8") for path in files)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


# Programs -------------------------------------------------------------------------------------------------------------


def program(name: str) -> dict[str, Any]:
    """Tune a call in a program, change its file, and compare what it prints."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
        before, again = _losses(folder, case.file), _losses(folder, case.file)
        start = time.monotonic()
        done = _tune(folder, "--apply", "--target", case.target, "--", sys.executable, case.file)
        seconds, answer = time.monotonic() - start, _answer(done)
        after = _losses(folder, case.file)
    ways = {way["name"]: way for way in (answer.get("tuning") or {}).get("ways", [])}
    kind = ((ways.get((answer.get("tuning") or {}).get("way", "")) or {}).get("against_eager") or {}).get("kind", "eager")
    far, own = _apart(before, after), _apart(before, again)
    wrong = [
        what
        for what, is_so in {
            f"ended with {done.returncode}: {done.stderr[-300:]}": done.returncode not in (0, 1),
            f"no ways: {answer.get('summary')}": not ways,
            f"a choice that is {kind}": kind not in ("eager", "equal", "rounding"),
            "the changed program does not print as many losses": len(before) != len(after) or not before,
            f"losses are off by {far:.1e}, and the choice is {kind}": far > (case.rounding if kind == "rounding" else 10 * own),
            f"ways are right that must not be: {case.refused}": any(ways.get(way, {}).get("rounds") for way in case.refused),
            f"no reason with {case.because!r}": bool(case.because)
            and not all(case.because in (ways.get(way, {}).get("why") or "") for way in case.refused),
        }.items()
        if is_so
    ]
    return _row(name, answer, wrong, seconds=round(seconds, 1), far=far, own=own)


def _apart(one: list[float], other: list[float]) -> float:
    return max((abs(a - b) / abs(a) for a, b in zip(one, other, strict=False)), default=0.0)


def _losses(folder: str, file: str) -> list[float]:
    done = subprocess.run([sys.executable, file], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return [float(found) for found in re.findall(r"loss (\S+)", done.stdout)] if done.returncode == 0 else []


def _tune(folder: str | Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOLS / "tune.py"), "--json", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)


def _answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the JSON that was printed: the last line that is an object, after what the program printed."""
    lines = [line for line in done.stdout.replace(f"{HERE.parent}/", "").splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1])) if lines else {}


def _row(name: str, answer: dict[str, Any], wrong: list[str], **more: Any) -> dict[str, Any]:
    tuning = answer.get("tuning") or {}
    ways = [
        {
            "name": way["name"],
            "kind": (way["against_eager"] or {}).get("kind"),
            "median": way["median"],
            "least": min((times["least"] for times in way["rounds"]), default=None),
            "most": max((times["most"] for times in way["rounds"]), default=None),
            "why": way["why"],
        }
        for way in tuning.get("ways", [])
    ]
    said = {"said": tuning.get("said") or answer.get("summary") or answer.get("error"), "notes": tuning.get("notes", [])}
    return {"name": name, **said, "ways": ways, **more, "wrong": "; ".join(wrong)}


# A machine that is not quiet ------------------------------------------------------------------------------------------


def little_memory(name: str) -> dict[str, Any]:
    """Tune a call of which two copies do not fit: each way is right, or says that memory was too little, or no module there."""
    done = _tune(PROGRAMS, OTHERS[name])
    answer = _answer(done)
    ways = [way for way in (answer.get("tuning") or {}).get("ways", []) if way["name"] not in ("eager", "partial")]
    lost = [way["name"] for way in ways if way["why"] and not re.search("memory|runs no module", way["why"])]
    wrong = [f"ended with {done.returncode}: {done.stderr[-300:]}"] * (done.returncode not in (0, 1))
    return _row(name, answer, [*wrong, *(f"{way} has another reason" for way in lost), *(["no ways"] * (not ways))])


def beside(name: str) -> dict[str, Any]:
    """Tune a call while another program keeps the GPU busy: a note says so."""
    other = subprocess.Popen([sys.executable, "-c", _BUSY], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        time.sleep(2)  # the driver's figure is of the last second
        done = _tune(PROGRAMS, OTHERS[name])
    finally:
        other.kill()
        other.wait()
    answer = _answer(done)
    notes = " ".join((answer.get("tuning") or {}).get("notes", []))
    wrong = ["no note says that another program uses the GPU"] * ("another program uses this GPU" not in notes)
    return _row(name, answer, [*wrong, *([f"ended with {done.returncode}"] * (done.returncode not in (0, 1)))])


# The server -----------------------------------------------------------------------------------------------------------


def served(name: str) -> dict[str, Any]:
    """Tune through the server with progress, cancel one run, tune again, and measure a workload."""
    return asyncio.run(_served(name))


async def _served(name: str) -> dict[str, Any]:
    from mcp import Client, StdioServerParameters

    command = ["-m", "cudagraph_skill", "serve", "--python", sys.executable, "--allow", str(PROGRAMS)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TOOLS), str(HERE.parent / "server")])}
    told: list[str] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - called by name
        told.append(message or "")

    async with Client(StdioServerParameters(command=sys.executable, args=command, env=environment)) as client:
        asked = {"path": OTHERS[name], "measure": "tune"}
        first = asyncio.create_task(client.call_tool("run_check", asked, progress_callback=heard))
        while not any("round" in message for message in told) and not first.done():
            await asyncio.sleep(0.1)
        first.cancel()
        result: Any = await client.call_tool("run_check", asked, progress_callback=heard)
        bench: Any = await client.call_tool("run_bench", {"workload": "mlp", "rounds": 1}, progress_callback=heard)
    said = [result.content[0].text[:400], bench.content[0].text[:400]]
    wrong = ["no round was told of"] * (not any("round" in message for message in told))
    wrong += [f"an error: {each.content[0].text[:300]}" for each in (result, bench) if each.is_error]
    wrong += ["tune chose nothing"] * ("times as fast as eager" not in said[0] and "stay eager" not in said[0])
    return {"name": name, "said": said, "told": len(told), "wrong": "; ".join(wrong)}


# The run --------------------------------------------------------------------------------------------------------------

_RUNS: dict[str, Callable[[str], dict[str, Any]]] = {
    **dict.fromkeys(CASES, program),
    **dict(zip(OTHERS, (little_memory, beside, served), strict=True)),
}


def _rows(names: list[str]) -> Any:
    for name in names:
        try:
            yield {**_RUNS[name](name), "digest": digest(name)}
        except (subprocess.TimeoutExpired, OSError, ValueError, ImportError) as error:
            yield {"name": name, "wrong": f"{type(error).__name__}: {error}"}


def _keep(files: list[str]) -> None:
    """Join rows into the evidence; a row of a later file takes the place of an earlier one."""
    runs = [on_gpu.read_rows(file) for file in files]
    kept = [json.loads(EVIDENCE.read_text(encoding="utf-8"))] if EVIDENCE.exists() else []
    rows = {row["name"]: row for run in [*kept, *runs] for row in run["results"] if row["digest"] == digest(row["name"])}
    EVIDENCE.write_text(json.dumps({**runs[-1], "results": list(rows.values())}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run `run` or `keep`."""
    match sys.argv[1:]:
        case ["run", *names]:
            machine = on_gpu.machine("python tests/tuned.py run")
            on_gpu.write_rows(machine, _rows(names or list(_RUNS)))
        case ["keep", *files] if files:
            _keep(files)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
