"""Grade what an agent handed in. Needs torch and the standard library; a program runs in child processes under a deadline.

A program is right if each tensor of each step, and its state after the steps that are not timed, equal eager's up to rounding.
How far rounding goes is measured in the same grading: how far eager runs are from the first in which what float32 rounds was
moved, the weights and the rate of the optimizer, at that step or before. Ten times that is allowed, plus ten units in the last
place. All of it is root mean square: in a large tensor, an optimizer turns the rounding of a few gradients near zero into
whole steps. Where eager itself moves by more than a tenth of a value, or an integer changes, no more of this value is
compared. Each grading draws its own seeds, one for all submissions to a task that it grades.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import suite

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHILD = Path(__file__).with_name("child.py")
_TIMES, _UNITS, _CHAOS = 10, 10, 0.1
_MOST = 1e6  # of an allowance, in figures: it stands for a wrong integer and an infinite distance too
_DRAWS = 6  # seeds that are tried for one with which eager repeats itself
_FREE = 256 * 2**20  # bytes that a capture may take besides: workspaces of cuBLAS, a pool


class Ended(NamedTuple):
    """How a child ended: `code` is None where the deadline ended it."""

    code: int | None
    output: str


# One value against eager ----------------------------------------------------------------------------------------------


class Allowance:
    """How far one value of a step may be from eager's: what was seen before counts, and it ends where eager diverges."""

    def __init__(self) -> None:
        self.noise = 0.0  # the largest so far, and the largest as a part of the value
        self.part = 0.0
        self.open = True
        self.used = 0.0  # the most of the allowance that a value took: more than 1 is wrong

    def wrong(self, actual: Any, expected: Any, others: Iterable[Any]) -> str:
        """Return what is wrong with the value, "" where nothing is, or where eager no longer repeats itself."""
        if not self.open:
            return ""
        if not expected.is_floating_point():
            self.open = all(other.shape == expected.shape and bool((other == expected).all()) for other in others)
            return self._whole(_differs(actual, expected)) if self.open else ""
        finite = expected.isfinite()
        size = _size(expected[finite])
        noise = self._noise(_combined([_distance(other, expected) for other in others]), size)
        if noise > _CHAOS * size:
            self.open = False
            return ""
        if actual.shape != expected.shape or not actual.is_floating_point():
            return self._whole(f"{tuple(actual.shape)} {actual.dtype}, expected {tuple(expected.shape)} {expected.dtype}")
        import torch

        allowed = _TIMES * noise + _UNITS * torch.finfo(expected.dtype).eps * size
        off = _distance(actual, expected)
        if off:
            self.used = max(self.used, min(off / allowed if allowed else _MOST, _MOST))
        return "" if off <= allowed else f"off by {off:.2g}, allowed {allowed:.2g}, value {size:.2g}"

    def _whole(self, said: str) -> str:
        """Return what is wrong with a value to which nothing may be added."""
        self.used = _MOST if said else self.used
        return said

    def _noise(self, now: float, size: float) -> float:
        """Return the noise of this step, and at least that of earlier ones: as it was, or in proportion if that is less."""
        noise = max(now, min(self.noise, self.part * size))
        self.noise = max(self.noise, now)
        self.part = max(self.part, now / size if size else 0.0)
        return noise


def _differs(actual: Any, expected: Any) -> str:
    if actual.shape != expected.shape:
        return f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    count = int((actual != expected).sum())
    return f"{count} of {expected.numel()} differ" if count else ""


def _combined(distances: list[float]) -> float:
    """Return the root mean square of the distances of several runs."""
    return math.hypot(*distances) / math.sqrt(len(distances))


def _size(values: Any) -> float:
    return float(values.double().square().mean().sqrt()) if values.numel() else 0.0


def _distance(one: Any, other: Any) -> float:
    """Return the root mean square of the difference; infinite where only one has an infinity or NaN at some place."""
    if one.shape != other.shape:
        return float("inf")
    one, other = one.double(), other.double()
    apart = (one - other).abs()
    apart[(one == other) | (one.isnan() & other.isnan())] = 0
    return _size(apart.nan_to_num(nan=float("inf"), posinf=float("inf")))


class Parity(NamedTuple):
    """What came of the comparison: in `compared` steps, before the first wrong one, eager repeated itself in every value.

    `said` is the first thing that is wrong; `used` the most of its allowance that any value took, of those behind it too.
    """

    compared: int
    said: str
    used: float


def parity(kept: list[dict[str, Any]], actual: dict[str, Any]) -> Parity:
    """Compare each value of each step, and the state, with the first of the kept runs; the others show eager's noise."""
    expected, *others = kept
    allowances: dict[int, Allowance] = {}
    compared, said = 0, []
    if len(actual["results"]) != len(expected["results"]):
        return Parity(0, f"{len(actual['results'])} steps, expected {len(expected['results'])}", _MOST)
    for step, values in enumerate(expected["results"]):
        given = actual["results"][step]
        if len(given) != len(values):
            return Parity(compared, f"step {step} returned {len(given)} tensors, expected {len(values)}", _MOST)
        for place, value in enumerate(values):
            allowance = allowances.setdefault(place, Allowance())
            wrong = allowance.wrong(given[place], value, [other["results"][step][place] for other in others])
            said += [f"step {step}, value {place}: {wrong}"] if wrong else []
        compared += not said and all(allowance.open for allowance in allowances.values())
    wrong, used = _state(expected["state"], [other["state"] for other in others], actual["state"])
    used = max([used, *(allowance.used for allowance in allowances.values())])
    return Parity(compared, (said or [wrong])[0], used)


def _state(expected: dict[str, Any], others: list[dict[str, Any]], actual: dict[str, Any]) -> tuple[str, float]:
    """Return the first thing that is wrong, and the most of its allowance that a part of the state took."""
    said, used = [], 0.0
    for name, value in expected.items():
        if name not in actual:
            return f"state() has no {name}", _MOST
        allowance = Allowance()
        if wrong := allowance.wrong(actual[name], value, [other[name] for other in others]):
            said.append(f"state() {name}: {wrong}")
        used = max(used, allowance.used)
    return (said or [""])[0], used


# A program ------------------------------------------------------------------------------------------------------------


class Expected(NamedTuple):
    """What a program gives: `runs` are that as it is and those with moved numbers."""

    settings: dict[str, Any]
    runs: list[dict[str, Any]]
    memory: int


def draw(task: suite.Task, device: str, asked: dict[str, Any]) -> Expected:
    """Run the program; again with another seed where a decision hangs on rounding, so that eager does not repeat itself.

    Raises:
        RuntimeError: The program that was given does not run on this machine.
    """
    import torch

    settings = {"device": device, **{name: asked[name] for name in ("steps", "rounds", "calls")}}
    found: Expected | None = None
    for _ in range(_DRAWS):
        settings = {**settings, "seed": secrets.randbelow(2**31)}
        with tempfile.TemporaryDirectory() as place:
            own, out = Path(place, "program"), Path(place, "eager.pt")
            suite.lay_out(task, own)
            eager = child("eager", own, out, settings, asked["seconds"])
            if eager.code != 0:
                raise RuntimeError(f"{task.name} does not run here: {eager.output[-2000:]}")
            memory = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))["memory"]
            found = Expected(settings, torch.load(out, weights_only=True), memory)
        if parity(found.runs, found.runs[0]).compared >= _least(asked):
            break
    assert found is not None
    return found


def _least(asked: dict[str, Any]) -> int:
    return int(min(asked["least"], asked["steps"]))


def program(task: suite.Task, folder: Path, device: str, drawn: dict[str, Expected], **limits: Any) -> dict[str, Any]:
    """Grade a program; return the row of its figures. What the program itself gives is taken from `drawn`, or put there."""
    asked = {**task.limits, **limits}
    row = {"task": task.name, "digest": task.digest, "passed": False}
    if not (folder / suite.PROGRAM).is_file():
        return {**row, "verdict": "missing", "said": f"there is no {suite.PROGRAM}"}
    if task.name not in drawn:
        drawn[task.name] = draw(task, device, asked)
    settings = drawn[task.name].settings
    row["seed"] = settings["seed"]
    with tempfile.TemporaryDirectory() as place:
        theirs, out = Path(place, "submission"), Path(place, "actual.pt")
        shutil.copytree(folder, theirs, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        for path in task.given:
            shutil.copyfile(path, theirs / path.name)  # whatever became of them there
        ended = child("submission", theirs, out, settings, asked["seconds"])
        if ended.code is None:
            return {**row, "verdict": "late", "said": f"not done after {asked['seconds']} s"}
        if ended.code != 0:
            return {**row, "verdict": "error", "said": ended.output.strip()[-500:]}
        return {**row, **_judged(out, drawn[task.name], asked)}


def _judged(out: Path, eager: Expected, asked: dict[str, Any]) -> dict[str, Any]:
    import torch

    times = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    found = parity(eager.runs, torch.load(out, weights_only=True))
    verdict = "wrong" if found.said else "right" if found.compared >= _least(asked) else "unclear"
    ratios = [one / other for one, other in zip(times["seconds"], times["eager"], strict=True)]
    ratio = statistics.median(ratios)
    memory = times["memory"] / eager.memory if eager.memory else None
    roomy = memory is None or times["memory"] <= asked["memory"] * eager.memory + _FREE
    return {
        "verdict": verdict,
        "said": found.said,
        "passed": verdict == "right" and ratio <= asked["faster"] and roomy,
        "compared": found.compared,
        "used": float(f"{found.used:.3g}"),
        "ratio": round(ratio, 3),
        "ratios": [round(min(ratios), 3), round(max(ratios), 3)],
        "eager_us": round(1e6 * statistics.median(times["eager"]), 1),
        "us": round(1e6 * statistics.median(times["seconds"]), 1),
        "first_s": round(times["first"], 2),
        "memory": memory and round(memory, 2),
        "gpu": times["gpu"],
        "torch": times["torch"],
    }


def child(way: str, folder: Path, out: Path, settings: dict[str, Any], seconds: float) -> Ended:
    """Run child.py under a deadline; nothing of it is left."""
    command = [sys.executable, "-u", str(_CHILD), way, str(folder), str(out), json.dumps(settings)]
    return ended(command, folder, seconds)


def ended(command: list[str], folder: Path, seconds: float, output: Path | None = None) -> Ended:
    """Run a command in a folder under a deadline, with its stdout and stderr in `output`, and end what it started."""
    with tempfile.TemporaryDirectory() as spare:
        path = output or Path(spare, "output")
        with path.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
            )
            try:
                code: int | None = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return Ended(code, path.read_text(encoding="utf-8", errors="replace"))


# An answer ------------------------------------------------------------------------------------------------------------


def answer(task: suite.Task, folder: Path) -> dict[str, Any]:
    """Grade an answer: each field has a pattern, or values, that are accepted."""
    row = {"task": task.name, "digest": task.digest, "passed": False}
    path = folder / suite.ANSWER
    if not path.is_file():
        return {**row, "verdict": "missing", "said": f"there is no {suite.ANSWER}"}
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        return {**row, "verdict": "error", "said": f"{suite.ANSWER} is no JSON: {error}"}
    if not isinstance(given, dict):
        return {**row, "verdict": "error", "said": f"{suite.ANSWER} is no object"}
    accepted: dict[str, Any] = task.answers["accepted"]
    off = [f"{name}: {given.get(name)!r}" for name, values in accepted.items() if not _accepts(values, given.get(name))]
    verdict = "wrong" if off else "right"
    return {**row, "verdict": verdict, "passed": not off, "said": "; ".join(off)[:500], "fields": len(accepted) - len(off)}


def _accepts(accepted: Any, given: Any) -> bool:
    """Return whether a field is accepted: a pattern, one of several values, or for each key of a table so.

    A number with a point is one within a hundredth; a list is compared as text, with commas.
    """
    if isinstance(accepted, dict):
        return isinstance(given, dict) and all(_accepts(value, given.get(name)) for name, value in accepted.items())
    if isinstance(accepted, list):
        return any(_accepts(value, given) for value in accepted)
    if isinstance(accepted, str):
        text = ", ".join(map(_plain, given)) if isinstance(given, list) else _plain(given)
        return re.fullmatch(accepted, text, re.IGNORECASE) is not None
    if isinstance(accepted, bool) or isinstance(given, (bool, str)) or given is None:
        return accepted is given
    near = 0.01 * abs(accepted) if isinstance(accepted, float) else 0
    return isinstance(given, (int, float)) and abs(given - accepted) <= near


def _plain(given: Any) -> str:
    return str(given).lower() if isinstance(given, bool) else str("" if given is None else given).strip()


def grade(
    task: suite.Task, folder: Path, device: str = "cuda", drawn: dict[str, Expected] | None = None, **limits: Any
) -> dict[str, Any]:
    """Grade what is in a folder; return a row. Submissions to one task share what `drawn` has of its program.

    Raises:
        RuntimeError: The program that was given does not run on this machine.
    """
    start = time.monotonic()
    programs = {} if drawn is None else drawn
    row = program(task, folder, device, programs, **limits) if task.hands_in == suite.PROGRAM else answer(task, folder)
    return {**row, "seconds": round(time.monotonic() - start, 1)}
