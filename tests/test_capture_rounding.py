"""What rounding moves, and how differences are compared with it. Eager runs on moved numbers need a GPU: tests/captures.py."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import checks, comparison, operations, rounding, tensors
from cudagraph_skill.capture.guest.agreement import Alone


class _Silent(Alone):
    def progress(self, doing: str) -> None:
        """Report nothing."""

    def step(self, *_: Any) -> None:
        """Report nothing."""


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64])
def test_each_element_moves_by_one_unit_in_the_last_place_up_or_down(dtype: torch.dtype) -> None:
    moved = torch.linspace(0.3, 1.7, 64, dtype=torch.float64).to(dtype)
    before = moved.clone()
    rounding.move([moved], sample=0)
    far = ((moved - before) / before).abs()
    epsilon = torch.finfo(dtype).eps
    assert 0 < far.max() <= 2 * epsilon
    assert {bool(up) for up in ((moved - before).real > 0)} == {True, False}


def test_two_samples_move_it_differently_and_no_generator_moves() -> None:
    first, second = torch.linspace(0.1, 0.9, 64), torch.linspace(0.1, 0.9, 64)
    state = torch.get_rng_state()
    rounding.move([first], sample=0)
    rounding.move([second], sample=1)
    assert not torch.equal(first, second)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    "kept",
    [
        torch.ones(4),
        torch.tensor([0.0, 1.0]),
        torch.arange(4),
        torch.tensor([True]),
        torch.tensor(0.5).expand(3),
        torch.zeros(0),
    ],
)
def test_masks_counts_and_expanded_tensors_stay(kept: torch.Tensor) -> None:
    before = kept.clone()
    rounding.move([kept], sample=0)
    assert torch.equal(kept, before)


def test_a_tensor_that_is_reached_twice_moves_once() -> None:
    once, twice = torch.full((8,), 0.7), torch.full((8,), 0.7)
    rounding.move([once], sample=0)
    rounding.move([twice, twice], sample=0)
    assert torch.equal(once, twice)


def _call(value: float) -> comparison.Call:
    return comparison.Call({"": tensors.to_host(torch.tensor([1.0, value]))}, {}, set(), {})


def _observed(eager: list[float], replayed: list[float]) -> checks.Observations:
    captured = checks.Captured([_call(value) for value in replayed], None, None, [], None, None)
    calls = [_call(value) for value in eager]
    wrong = comparison.compare(calls, captured.calls, comparison.own_spread({}))
    return checks.Observations(captured, wrong, calls, {}, 0, set(), {})


def test_a_few_units_in_the_last_place_are_rounding_without_a_measurement() -> None:
    observed = _observed([1.0, 2.0], [1.0, 2.0 + 1e-6])
    assert observed.wrong is not None
    small = rounding.judged(None, observed, _Silent())  # type: ignore[arg-type]
    assert small is not None
    assert small.moves is None
    assert small.wrong.calls == [1]


@pytest.mark.parametrize(("moves", "is_rounding"), [(3e-3, True), (1e-4, False), (0.0, False)])
def test_a_larger_difference_is_rounding_where_eager_itself_moves_as_far(
    monkeypatch: pytest.MonkeyPatch, moves: float, is_rounding: bool
) -> None:
    monkeypatch.setattr(rounding, "measured", lambda *_: rounding.Moves([{}, {"result": moves}]))
    monkeypatch.setattr(rounding, "_asked", lambda *_: ([], None))
    small = rounding.judged(None, _observed([1.0, 2.0], [1.0, 2.02]), _Silent())  # type: ignore[arg-type]
    assert (small is not None) == is_rounding


@pytest.mark.parametrize(
    ("moves", "follows", "is_rounding"),
    [(1e-6, None, True), (3e-7, None, False), (0.0, None, False), (None, None, True), (3e-7, 0.0, True), (3e-7, 6e-6, False)],
)
def test_what_the_dtype_allows_is_rounding_up_to_ten_times_eager_s_move(
    monkeypatch: pytest.MonkeyPatch, moves: float | None, follows: float | None, is_rounding: bool
) -> None:
    given = None if moves is None else rounding.Moves([{}, {"result": moves}])
    monkeypatch.setattr(rounding, "_moves", lambda *_: given)
    monkeypatch.setattr(rounding, "_asked", lambda *_: ([], follows))
    small = rounding.judged(None, _observed([1.0, 2.0], [1.0, 2.0 + 1e-5]), _Silent())  # type: ignore[arg-type]
    assert (small is not None) == is_rounding


def test_an_infinite_difference_is_never_rounding() -> None:
    observed = _observed([1.0, 2.0], [1.0, math.nan])
    assert rounding.judged(None, observed, _Silent()) is None  # type: ignore[arg-type]


def test_lines_that_ask_whether_a_stream_captures_get_the_answer_and_are_listed() -> None:
    with operations.told_it_captures() as lines:
        answer = torch.cuda.is_current_stream_capturing()
    assert answer
    assert [line.places[-1].function for line in lines] == [
        "test_lines_that_ask_whether_a_stream_captures_get_the_answer_and_are_listed"
    ]
    assert torch.cuda.is_current_stream_capturing is operations._captures


@pytest.mark.parametrize(
    ("far", "moves", "follows", "is_chaos"),
    [
        (0.3, 0.5, None, True),
        (0.3, 0.5, 0.0, False),
        (0.3, 0.5, math.inf, True),
        (0.02, 0.03, None, False),
        (0.3, None, None, False),
    ],
)
def test_a_large_difference_says_nothing_however_far_eager_moves(
    far: float, moves: float | None, follows: float | None, is_chaos: bool
) -> None:
    wrong = comparison.Wrong([3], far, "result", 1e-5)
    assert rounding.Rounding(wrong, moves, (), follows).is_chaos == is_chaos
