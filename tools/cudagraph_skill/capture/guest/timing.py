"""Time calls in batches, ways of making them in turns."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

import torch

from cudagraph_skill.capture.guest import checks

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.capture.guest.load import Subject

    Way = Callable[[int, int], Callable[[], None]]

_BATCHES, _SECONDS, _MOST, _LONG = 11, 0.05, 50, 1.0  # seconds and calls of a batch; of a call, from which on few are timed
FEW = 3


class Times(NamedTuple):
    """Seconds of a call: the median, the least and the most of batches."""

    median: float
    least: float
    most: float


def calls(subject: Subject, first: int) -> Way:
    """Return batches of calls of a subject, with the arguments of calls from number `first` on."""

    def prepared(number: int, count: int) -> Callable[[], None]:
        args, kwargs = checks.arguments(subject, first + number)

        def batch() -> None:
            for _ in range(count):
                subject.call(*args, **kwargs)

        return batch

    return prepared


def replays(graph: torch.cuda.CUDAGraph) -> Way:
    """Return batches of replays."""

    def prepared(_number: int, count: int) -> Callable[[], None]:
        def batch() -> None:
            for _ in range(count):
                graph.replay()

        return batch

    return prepared


def in_turns(ways: dict[str, Way]) -> dict[str, Times]:
    """Time ways in turns, in batches of calls in a row; a way prepares `count` calls for a batch, which is not timed."""
    first = {name: _batch(way(0, 1), 1) for name, way in ways.items()}
    counts = {name: max(1, min(_MOST, int(_SECONDS / taken))) for name, taken in first.items()}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(1, 1 + (_BATCHES if max(first.values()) < _LONG else FEW)):
        for name, way in ways.items():
            taken[name].append(_batch(way(number, counts[name]), counts[name]))
    return {name: Times(statistics.median(rows), min(rows), max(rows)) for name, rows in taken.items()}


def _batch(batch: Callable[[], None], count: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    batch()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count
