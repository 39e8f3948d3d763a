"""What several eager calls show: that only the host changes, or from where on eager parts from itself."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import checks, tensors, verdict
from cudagraph_skill.capture.guest.agreement import Alone


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
    assert checks._changes_on_host(calls) == changes


def test_a_call_that_only_the_host_makes_is_silently_wrong_at_its_definition() -> None:
    error = checks.WithoutGPUError("Meter.update", [f"self.{name}" for name in "abcde"])
    result = verdict._without_gpu(error, {"found": {"path": "train.py", "line": 7, "name": "Meter.update"}})
    assert result["verdict"] == "silent_wrong"
    assert "(self.a, self.b, self.c, self.d, …)" in result["said"]
    [cause] = result["causes"]
    assert (cause["path"], cause["line"], cause["category"]) == ("train.py", 7, "host-only")


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
