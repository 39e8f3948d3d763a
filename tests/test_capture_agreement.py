"""Whatever each rank sees, all make the same calls in the same order: else one waits in a collective for ever."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import checks, comparison, rounding, verdict, why_failed, why_wrong
from cudagraph_skill.capture.guest.agreement import Alone
from cudagraph_skill.capture.guest.tensors import HostCopy

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE_SECONDS = 10


class Paired(Alone):
    """One of two ranks in two threads; `log` has the points to which it came and the calls that it made."""

    several = True

    def __init__(self, rank: int, meeting: threading.Barrier, values: list[Any]) -> None:
        self.rank, self.meeting, self.values = rank, meeting, values
        self.log: list[str] = []

    def agree(self, name: str, value: Any) -> list[Any]:
        """Exchange values with the other thread; a name that is not the other's breaks both."""
        self.log.append(name)
        self.values[self.rank] = (name, value)
        self.meeting.wait(_PATIENCE_SECONDS)
        both = list(self.values)
        self.meeting.wait(_PATIENCE_SECONDS)
        assert len({each for each, _ in both}) == 1
        return [value for _, value in both]

    def progress(self, doing: str) -> None:
        """Report nothing."""

    def step(self, *_: Any) -> None:
        """Report nothing."""


class Source:
    """A source of nothing; its request tells the rank."""

    last = None
    builds_anew = False

    def __init__(self, report: Paired) -> None:
        self.last_roots: list[Any] = []
        self.request = {"report": report, "name": "step"}

    def call(self, name: str) -> None:
        """Log a call that all ranks have to make."""
        self.request["report"].log.append(name)  # type: ignore[attr-defined]


def _call(value: float) -> comparison.Call:
    data = torch.full((8,), value, dtype=torch.float64)
    return comparison.Call({"": HostCopy(data, (8,), torch.float32)}, {}, set(), {})


def _seen(replayed: float, spread: float = 0.0, stuck: list[str] | None = None, **parts: Any) -> checks.Observations:
    calls = [_call(replayed) for _ in range(3)]
    captured = checks.Captured(calls, None, None, stuck or [], None, ((), {}))._replace(**parts)
    eager = [_call(1.0) for _ in range(3)]
    wrong = comparison.compare(eager, captured.calls, comparison.own_spread({"result": spread}))
    return checks.Observations(captured, wrong, eager, {"result": spread}, 0, set(), {})


REPLAYED: dict[str, Callable[[], checks.Observations]] = {
    "equal": lambda: _seen(1.0),
    "off a little": lambda: _seen(1.0 + 1e-7),
    "off": lambda: _seen(1.01),
    "off very much": lambda: _seen(float("nan")),
    "stuck": lambda: _seen(1.0, stuck=["shape of argument [0]"]),
    "another number": lambda: _seen(1.0, numbers=["call 4: number in argument [1]: 3 at capture, then 4"]),
    "another number, and off a little": lambda: _seen(1.0 + 1e-7, numbers=["call 4: number in argument [1]: 3, then 4"]),
    "within its own spread": lambda: _seen(1.0001, spread=1e-5),
    "noisy": lambda: _seen(1.0, spread=0.5),
    "noisy and off": lambda: _seen(30.0, spread=0.5),
}
FAILED: dict[str, Callable[[], checks.Observations]] = {
    "failed elsewhere": lambda: _seen(1.0, failed=True),
    "failed": lambda: _seen(1.0, failed=True, error=RuntimeError("CUDA error: capturing")),
    "out of memory": lambda: _seen(1.0, failed=True, error=torch.cuda.OutOfMemoryError("CUDA out of memory")),
}
PAIRS = [
    *itertools.product(REPLAYED.items(), REPLAYED.items()),
    *(pair for pair in itertools.product(FAILED.items(), FAILED.items()) if pair[0][0] != "failed elsewhere" != pair[1][0]),
    *((first, ("failed elsewhere", FAILED["failed elsewhere"])) for first in list(FAILED.items())[1:]),
]


@pytest.fixture
def expensive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log what calls the user's function, in place of calling it on a GPU."""

    def logging(name: str, answer: Any) -> Callable[..., Any]:
        def call(source: Source, *_: Any, **__: Any) -> Any:
            source.call(name)
            return answer

        return call

    for module, name, answer in (
        (why_wrong, "recorded", why_wrong.Logs([[], []], [], [set(), set()])),
        (why_wrong, "unrepeatable", []),
        (rounding, "measured", rounding.Moves([{"result": 1.0}] * 3)),
        (rounding, "_asked", ([], None)),
        (rounding, "keeps_numbers", False),
        (why_failed, "_watched", []),
        (why_failed, "_probed", []),
    ):
        monkeypatch.setattr(module, name, logging(name, answer))
    monkeypatch.setattr(verdict, "_memory", lambda _: "too little memory")


@pytest.mark.usefixtures("expensive")
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0][0]}, {pair[1][0]}")
def test_ranks_that_see_different_things_make_the_same_calls(
    pair: tuple[tuple[str, Callable[[], checks.Observations]], ...],
) -> None:
    meeting, values = threading.Barrier(2), [None, None]
    reports = [Paired(rank, meeting, values) for rank in range(2)]
    results: list[Any] = [None, None]

    def run(rank: int) -> None:
        try:
            results[rank] = verdict._outcome(Source(reports[rank]), pair[rank][1](), reports[rank])  # type: ignore[arg-type]
        finally:
            if results[rank] is None:
                meeting.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reports[0].log == reports[1].log
    alone = [_alone(observed()) for _, observed in pair]
    assert [result["verdict"] for result in results] == alone


@pytest.mark.usefixtures("expensive")
def test_a_number_that_changes_is_wrong_only_if_a_replay_is() -> None:
    numbers = ["call 4: number in argument [1]: 3 at capture, then 4"]
    report = Paired(0, threading.Barrier(1), [None])
    safe, wrong = (
        verdict._outcome(Source(report), _seen(value, numbers=numbers), report)  # type: ignore[arg-type]
        for value in (1.0, float("nan"))
    )
    assert (safe["verdict"], safe["causes"]) == ("safe", [])
    assert [note.partition(";")[0] for note in safe["notes"][:1]] == numbers
    assert wrong["verdict"] == "silent_wrong"
    assert [cause["category"] for cause in wrong["causes"]] == ["argument-number"]


@pytest.mark.usefixtures("expensive")
def test_a_small_difference_is_wrong_if_the_number_of_the_capture_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Paired(0, threading.Barrier(1), [None])
    seen = REPLAYED["another number, and off a little"]
    assert verdict._outcome(Source(report), seen(), report)["verdict"] == "safe"  # type: ignore[arg-type]
    monkeypatch.setattr(rounding, "keeps_numbers", lambda *_: True)
    found = verdict._outcome(Source(report), seen(), report)  # type: ignore[arg-type]
    assert (found["verdict"], found["causes"][0]["category"]) == ("silent_wrong", "argument-number")


def test_replays_as_far_from_eager_as_eager_is_from_itself_are_equal_within_that() -> None:
    report = Paired(0, threading.Barrier(1), [None])
    found = verdict._outcome(Source(report), REPLAYED["within its own spread"](), report)  # type: ignore[arg-type]
    assert (found["verdict"], found["rounds"]["agreement"], found["rounds"]["path"]) == ("safe", "rounding", "result")
    assert found["said"].endswith("result differs by 0.0001, and by 1e-05 in two eager runs from the same state and seed")


def _alone(observed: checks.Observations) -> str:
    """Return the verdict without another rank; "stopped" where there must have been one."""
    report = Paired(0, threading.Barrier(1), [None])
    return str(verdict._outcome(Source(report), observed, report)["verdict"])  # type: ignore[arg-type]


def test_one_process_agrees_with_itself() -> None:
    assert Alone().agree("a name", [1]) == [[1]]
    assert Alone().any("a name", value=True)
    assert Alone().most("a name", 0.5) == 0.5
    assert Alone().same("a name", "float32[2]") == "float32[2]"
