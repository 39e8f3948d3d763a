"""What several eager calls show: that only the host changes, or from where on eager parts from itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import checks, executed, host_only, stack, tensors, verdict
from cudagraph_skill.capture.guest.agreement import Alone
from user_files import imported, line_of

if TYPE_CHECKING:
    from pathlib import Path


class Silent(Alone):
    """Nobody listens."""

    def progress(self, said: str) -> None:
        """Ignore progress."""


def call(result: object = None, moved: set[str] | None = None, **scalars: object) -> checks.Call:
    """Return what a call left: its result, the generators that moved, the numbers in reach."""
    return checks.Call(tensors.values_to_host(result), {}, moved or set(), dict(scalars))


@pytest.mark.parametrize(
    ("calls", "changes"),
    [
        ([call(1.0, n=1), call(1.0, n=1)], []),
        ([call(0.5), call(0.25), call(0.5)], ["result"]),
        ([call((0.5, 1.0)), call((0.5, 2.0))], ["result[1]"]),
        ([call(torch.ones(2)), call(torch.zeros(2))], ["result"]),
        ([call(None, total=1.0, rate=2.0), call(None, total=2.0, rate=2.0)], ["total"]),
        ([call(None), call(None, moved={"python-random"})], ["python-random"]),
    ],
)
def test_what_changes_on_the_host_is_named_once(calls: list[checks.Call], changes: list[str]) -> None:
    assert host_only.changed([host_only.Left(each.left(), each.scalars, each.moved) for each in calls]) == changes


def test_a_call_that_only_the_host_makes_is_silently_wrong_at_its_line() -> None:
    error = host_only.WithoutGPUError(
        "Meter.update", [f"self.{name}" for name in "abcde"], stack.Place("train.py", 7, "update")
    )
    result = verdict._without_gpu(error, {})
    assert result["verdict"] == "silent_wrong"
    assert "(self.a, self.b, self.c, self.d, …)" in result["said"]
    [cause] = result["causes"]
    assert (cause["path"], cause["line"], cause["category"]) == ("train.py", 7, "host-only")


METER = """
class Meter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value):
        if value == self.count:
            pass
        self.sum += value
        self.count += 1
        return self.sum / self.count
"""


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (["self.count"], "count += 1"),
        (["self.sum", "self.count"], "sum +="),
        (["result"], "return"),
        (["python-random"], "return"),
    ],
)
def test_the_line_is_the_one_that_assigns_what_changes_else_the_last(tmp_path: Path, changes: list[str], text: str) -> None:
    meter = imported(tmp_path / "meter.py", METER).Meter()
    with executed.Lines().followed() as trail:
        meter.update(2.0)
    line = host_only.deciding_line(trail, changes)
    assert line is not None
    assert line.line == line_of(tmp_path / "meter.py", text)


def test_a_call_without_lines_of_the_user_has_no_line() -> None:
    assert host_only.deciding_line([], ["result"]) is None


def drift(far: list[float], spread: float = 0.0, warm_ups: int = 3) -> tuple[int, float] | None:
    """Return from which call on, and how far, two copies are apart that differ by `far` in each call."""
    eager = [call(torch.ones(4)) for _ in far]
    third = [call(torch.ones(4) + each) for each in far]
    found = checks._drift(eager, third, {"result": spread}, warm_ups, Silent())
    return (found.call, round(found.far, 4)) if found is not None else None


def test_replays_before_eager_parts_from_itself_are_enough() -> None:
    assert drift([0, 1e-7, 1e-6, 1e-6, 1e-5, 1e-4, 0.2, 0.3]) == (6, 0.2)


@pytest.mark.parametrize(
    ("far", "spread"),
    [
        ([0, 1e-7, 1e-6, 1e-6, 1e-5, 1e-4, 1e-4], 0.0),  # it never does
        ([0, 1e-7, 1e-6, 1e-6, 1e-5, 0.2, 0.3], 0.0),  # two replays are too few
        ([0, 1e-7, 1e-6, 1e-6, 1e-5, 1e-4, 0.2, 0.3], 0.1),  # two other copies parted before the capture
        ([0.1, 0, 0, 0, 0, 0, 0], 0.0),
    ],
)
def test_it_is_no_drift_where_eager_repeats_itself_or_never_does(far: list[float], spread: float) -> None:
    assert drift(far, spread) is None
