"""`skill scaffold --verify` and the MCP server on a GPU, in processes of their own, as users run them.

    python tests/served.py run [PYTHON] > out.json   on a GPU machine; this interpreter has the project, PYTHON has torch
    python tests/served.py keep out.json             back here: becomes tests/evidence/served.json

Programs right and wrong are verified through the command and through the server, and functions captured by `run_check`, one
of them in a call that is cancelled. A row says what came, and in `wrong` what of it is not as it must be.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import on_gpu
from cudagraph_skill.scaffold import file as programs
from cudagraph_skill.scaffold import render, rules
from cudagraph_skill.scaffold import versions as releases
from mcp import Client, StdioServerParameters

HERE = Path(__file__).resolve().parent
EVIDENCE = HERE / "evidence" / "served.json"
WRITTEN_FOR = "torch==2.11"
_PATIENCE_SECONDS = 400


class Case(NamedTuple):
    """A program to verify: the words after `skill scaffold`, an edit of its text, and what must be said of it."""

    name: str
    options: str
    edit: tuple[str, str] = ("", "")
    verdict: str = "ok"
    said: tuple[str, ...] = ()

    @property
    def is_module(self) -> bool:
        """Return whether the program is written in two files."""
        return "--module" in self.options

    def receipt(self, file: Path) -> Path:
        """Return where the receipt of the program at `file` is written."""
        return file.with_name(f"{'check_' * self.is_module}{file.stem}.receipt.json")


CASES = (
    Case("manual", "manual --training"),
    Case("module", "manual --training --module"),
    Case("a module of buckets of lengths", "manual-over-compile --buckets --module", ("DIM = 0", "DIM = 1")),
    Case("ddp", "manual --training --ddp"),
    Case("reduce-overhead", "reduce-overhead --training --amp bf16"),
    Case(
        "a batch that does not reach the graph",
        "manual --training --module",
        ("        self.x.copy_(x, non_blocking=True)\n", ""),
        "failed",
        ("parity does not hold", 'prepare("eager")'),
    ),
    Case(
        "the host reads in the step",
        "manual --training",
        ("        loss.backward()\n", "        loss.backward()\n        assert loss.item() > 0\n"),
        "failed",
        ("parity failed: ", "sync-op-during-capture", "CG201", 'prepare("eager")'),
    ),
)
FUNCTIONS = """
import time


def right(x):
    return x * 2 + 1


def reads(x):
    if x.sum().item() > 0:
        return x
    return -x


def counts(x, calls=[0]):
    calls[0] += 1
    return x * calls[0]


def hangs(x):
    with open("hangs", "w") as file:
        file.write("here")
    time.sleep(1000)
    return x
"""
VERDICTS = {"right": ("safe", 0), "reads": ("capture_error", 10), "counts": ("silent_wrong", 17)}  # and the line that is named


def digest() -> str:
    """Return a hash of the cases and the programs that they write."""
    versions = releases.choose([WRITTEN_FOR], {})
    texts = [repr(CASES), FUNCTIONS, repr(VERDICTS)]
    for case in CASES:
        options = rules.checked(programs.options(_asked(case.options)))
        texts += render.module(options, versions) if case.is_module else [render.program(options, versions)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _asked(options: str) -> dict[str, Any]:
    """Convert the options of a command to arguments of the tool `scaffold`."""
    workflow, *words = options.replace("--", "").split()
    values = {"amp": words[words.index("amp") + 1]} if "amp" in words else {}
    return {
        "workflow": workflow,
        **values,
        **{word: True for word in words if word in ("training", "ddp", "module", "buckets")},
    }


# The command ----------------------------------------------------------------------------------------------------------


def commanded(case: Case, python: str) -> dict[str, Any]:
    """Write the program, edit it, verify it, each by the command."""
    with tempfile.TemporaryDirectory() as folder:
        written = _skill(folder, "scaffold", *case.options.split(), "--for", WRITTEN_FOR, "--into", "step.py")
        _edit(Path(folder, "step.py"), case)
        done = _skill(folder, "scaffold", "--verify", "step.py", "--python", python, "--json")
        report = json.loads(done.stdout or "{}")
        kept = case.receipt(Path(folder, "step.py"))
        text = json.dumps(report)
        wrong = [
            f"{what}: {seen!r}, must be {must!r}"
            for what, seen, must in (
                ("writing ended with", written.returncode, 0),
                ("verifying ended with", done.returncode, 0 if case.verdict == "ok" else 1),
                ("verdict", report.get("verdict", done.stderr), case.verdict),
                ("receipt", kept.exists() and json.loads(kept.read_text(encoding="utf-8"))["verdict"], case.verdict),
            )
            if seen != must
        ]
    return _row(f"skill scaffold --verify: {case.name}", report, [*wrong, *_unsaid(case, text)])


def _skill(folder: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cudagraph_skill", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)


def _edit(file: Path, case: Case) -> None:
    text = file.read_text(encoding="utf-8")
    old, new = case.edit
    assert old in text, f"{case.name}: the program changed, and has no such line"
    file.write_text(text.replace(old, new) if old else text, encoding="utf-8")


def _unsaid(case: Case, text: str) -> list[str]:
    plain = text.replace('\\"', '"')
    return [f"does not say {text}" for text in case.said if text not in plain]


def _row(name: str, report: dict[str, Any], wrong: list[str]) -> dict[str, Any]:
    shown = {key: report[key] for key in ("verdict", "said", "summary", "cause", "fallback") if report.get(key)}
    return {"name": name, **shown, "wrong": "; ".join(wrong)}


# The server -----------------------------------------------------------------------------------------------------------


async def served(python: str, folder: Path, cases: list[Case]) -> list[dict[str, Any]]:
    """Run the same programs and some functions through one server, and cancel one call."""
    command = ["-m", "cudagraph_skill", "serve", "--python", python, "--allow", str(folder)]
    rows = []
    async with Client(StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))) as client:
        (folder / "functions.py").write_text(FUNCTIONS, encoding="utf-8")
        for name, (verdict, line) in VERDICTS.items():
            rows.append(await _captured(client, name, verdict, line))
        rows.append(await _cancelled(client, folder))
        rows += [await _verified(client, case) for case in cases]
    return rows


async def _captured(client: Client, name: str, verdict: str, line: int) -> dict[str, Any]:
    messages: list[str] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - called by name
        messages.append(message or "")

    asked = {"path": "functions.py", "function": name, "shapes": ["8"]}
    result: Any = await client.call_tool("run_check", asked, progress_callback=told)
    data = result.structured_content or {"summary": result.content[0].text}
    lines = [finding["line"] for finding in data.get("findings", [])]
    wrong = [f"{data.get('verdict')}, must be {verdict}"] * (data.get("verdict") != verdict)
    wrong += [f"lines {lines}, must have {line}"] * (line > 0 and line not in lines)
    wrong += ["no progress was told"] * (not messages)
    wrong += ["the text lacks the summary"] * (data.get("summary", "") not in result.content[0].text)
    return _row(f"run_check: {name}", data, wrong)


async def _cancelled(client: Client, folder: Path) -> dict[str, Any]:
    hanging = asyncio.create_task(client.call_tool("run_check", {"path": "functions.py:hangs", "shapes": ["8"]}))
    end = time.monotonic() + 60
    while not (folder / "hangs").exists() and time.monotonic() < end:
        await asyncio.sleep(0.05)
    hanging.cancel()
    row = await _captured(client, "right", *VERDICTS["right"])
    wrong = ["the call that was to hang did not start"] * (not (folder / "hangs").exists())
    return {
        **row,
        "name": "run_check: the next after one that was cancelled",
        "wrong": "; ".join([*wrong, row["wrong"]]).strip("; "),
    }


async def _verified(client: Client, case: Case) -> dict[str, Any]:
    arguments = {**_asked(case.options), "versions": [WRITTEN_FOR], "path": f"{case.name.replace(' ', '_')}.py"}
    written: Any = await client.call_tool("scaffold", arguments)
    if written.is_error:
        return _row(f"scaffold: {case.name}", {}, [written.content[0].text])
    file = Path(written.structured_content["path"])
    _edit(file, case)
    result: Any = await client.call_tool("scaffold", {"path": str(file), "verify": True})
    verified = (result.structured_content or {}).get("verified") or {"said": result.content[0].text}
    wrong = [f"{verified.get('verdict')}, must be {case.verdict}"] * (verified.get("verdict") != case.verdict)
    wrong += ["no receipt beside the program"] * (not case.receipt(file).exists())
    return _row(f"scaffold: {case.name}", verified, [*wrong, *_unsaid(case, json.dumps(verified))])


# The run --------------------------------------------------------------------------------------------------------------


def _run(python: str) -> dict[str, Any]:
    machine = _machine(python)
    cases = [case for case in CASES if "--ddp" not in case.options or len(machine["gpus"]) > 1]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:  # side by side: no time of theirs is kept
        jobs = [pool.submit(commanded, case, python) for case in cases]
        rows = asyncio.run(served(python, Path(folder).resolve(), cases))
        rows = [*(job.result() for job in jobs), *rows]
    return {**machine, "digest": digest(), "results": rows}


def _machine(python: str) -> dict[str, Any]:
    """Describe the machine as the interpreter that has torch sees it."""
    code = "import json, on_gpu; print(json.dumps(on_gpu.machine('python tests/served.py run')))"
    versions = subprocess.run([python, "-c", code], cwd=HERE, capture_output=True, text=True, check=True).stdout
    return dict(json.loads(versions))


if __name__ == "__main__":
    on_gpu.run_or_keep(lambda words: _run((words or [sys.executable])[0]), EVIDENCE, __doc__)
