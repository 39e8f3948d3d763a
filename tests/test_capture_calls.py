"""What several eager calls show: that only the host changes, or from where on eager parts from itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import comparison, executed, host_only, stack, tensors, verdict
from cudagraph_skill.capture.guest.agreement import Alone
from user_files import imported, line_of

if TYPE_CHECKING:
    from pathlib import Path


class Silent(Alone):
    """Nobody listens."""

    def progress(self, said: str) -> None:
        """Ignore progress."""


def call(result: object = None, moved: set[str] | None = None, **scalars: object) -> comparison.Call:
    """Return what a call left: its result, the generators that moved, the numbers in reach."""
    return comparison.Call(tensors.values_to_host(result), {}, moved or set(), dict(scalars))


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
def test_what_changes_on_the_host_is_named_once(calls: list[comparison.Call], changes: list[str]) -> None:
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


def until_apart(far: list[float], warm_ups: int = 3) -> comparison.Eager:
    """Return what is left of eager calls from which another copy is `far` in each."""
    apart = [{"result": each} for each in far]
    return comparison.until_apart([call(torch.ones(4)) for _ in far], apart, warm_ups, Silent())


def test_replays_before_eager_parts_from_itself_are_enough() -> None:
    eager = until_apart([0, 1e-7, 1e-6, 1e-6, 1e-5, 1e-4, 0.2, 0.3])
    assert eager.drift == comparison.Drift(6, "result", 0.2)
    assert len(eager.calls) == len(eager.apart) == 6
    assert eager.spread == {"result": 1e-4}


def test_a_copy_that_parts_at_once_from_what_it_equalled_says_nothing_of_later_calls() -> None:
    eager = until_apart([0, 0, 0, 0, 0, 0, 0.2, 0.3])
    assert (len(eager.calls), eager.drift, eager.spread) == (8, None, {"result": 0.0})


@pytest.mark.parametrize(
    "far",
    [
        [0, 1e-7, 1e-6, 1e-6, 1e-5, 1e-4, 1e-4],  # it never does
        [0, 1e-7, 1e-6, 1e-6, 1e-5, 0.2, 0.3],  # two replays are too few
        [0, 0.1, 0, 0, 0, 0, 0],  # before the capture
        [0.1, 0, 0, 0, 0, 0, 0],
    ],
)
def test_all_calls_are_compared_where_eager_repeats_itself_or_never_does(far: list[float]) -> None:
    eager = until_apart(far)
    assert (len(eager.calls), eager.drift, eager.spread) == (7, None, {"result": max(far)})
