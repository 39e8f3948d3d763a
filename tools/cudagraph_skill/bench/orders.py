"""Sort the ways by a measure, within its spread, and say where Self CPU time and wall time differ."""

from __future__ import annotations

import statistics
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.bench.ways import BY_NAME, EAGER, table
from cudagraph_skill.text import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudagraph_skill.bench.record import Result, Row

_HIDDEN = 1.15  # times what the GPU is busy, up to which a step is as fast as the GPU
_CLEAR = 1.03  # a smaller factor between two medians says nothing


class Spread(NamedTuple):
    """A measure: the median, the 10th and the 90th percentile."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the percentiles of values, interpolated; of a single one, itself."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    return Spread(statistics.median(values), tenths[0], tenths[-1])


def wall(row: Row) -> Spread:
    """Return the seconds of a step, over the batches of all rounds."""
    return spread([value for part in row.timed for value in part.wall])


def submit(row: Row) -> Spread:
    """Return the seconds until a step is submitted, over all rounds."""
    return spread([value for part in row.timed for value in part.submit])


def self_cpu(row: Row) -> Spread:
    """Return the Self CPU time of the profiled steps, over the rounds."""
    return spread([part.self_cpu for part in row.profiled])


def busy(row: Row) -> Spread:
    """Return how long the GPU is busy in a step, over the rounds."""
    return spread([part.busy for part in row.profiled])


def memory(row: Row) -> Spread:
    """Return the bytes that torch has reserved at the most, over the rounds."""
    return spread([float(part.reserved) for part in row.timed])


def is_before(first: Spread, second: Spread) -> bool:
    """Return whether one is clearly less than the other: by its median, and beyond the spread of both."""
    return first.median * _CLEAR < second.median and first.high < second.low


def order(rows: Sequence[Row], measure: Callable[[Row], Spread]) -> str:
    """Return the labels of rows from the least to the most, with `<` where two neighbours differ clearly, else `=`."""
    ranked = sorted(rows, key=lambda row: measure(row).median)
    signs = ["<" if is_before(measure(first), measure(second)) else "=" for first, second in pairwise(ranked)]
    return "".join(
        f"{BY_NAME[row.way].label}{f' {sign} ' if sign else ''}" for row, sign in zip(ranked, [*signs, ""], strict=True)
    )


def in_table(result: Result) -> list[Row]:
    """Return the rows of the blog's table that were measured."""
    return [row for row in map(result.row, table(result.workload)) if row is not None]


def as_published(result: Result) -> bool | None:
    """Return whether the medians of Self CPU time have the published order; None where a row is missing or unpublished."""
    rows = in_table(result)
    if len(rows) < len(table(result.workload)) or not all(BY_NAME[row.way].published for row in rows):
        return None
    here = sorted(rows, key=lambda row: self_cpu(row).median)
    return here == sorted(rows, key=lambda row: min(BY_NAME[row.way].published))


def gain(result: Result, way: str, measure: Callable[[Row], Spread]) -> float | None:
    """Return how many times less than without a graph a measure of a way is."""
    eager, row = result.row(EAGER), result.row(way)
    if eager is None or row is None or not measure(row).median:
        return None
    return measure(eager).median / measure(row).median


def difference(result: Result) -> str:
    """Say in one sentence where the two orders differ most, and why."""
    apart = [
        (self_cpu(second).median / self_cpu(first).median, first, second)
        for first, second in combinations(sorted(in_table(result), key=lambda row: self_cpu(row).median), 2)
        if is_before(self_cpu(first), self_cpu(second)) and not is_before(wall(first), wall(second))
    ]
    if not apart:
        return _alike(result)
    times, first, second = max(apart, key=lambda each: each[0])
    slower = is_before(wall(second), wall(first))
    beside = "wall time says the opposite" if slower else "by wall time the two are within the noise of each other"
    return (
        f"by Self CPU time {BY_NAME[first.way].label} takes {times:.2f} times less than {BY_NAME[second.way].label}, {beside} "
        f"({duration(wall(first).median)} and {duration(wall(second).median)}): {_why(first, second)}"
    )


def _alike(result: Result) -> str:
    """Say that the orders are the same, and what of Self CPU time is not."""
    gains = [
        (here, there, row)
        for row in in_table(result)
        if row.way != EAGER
        and (here := gain(result, row.way, self_cpu)) is not None
        and (there := gain(result, row.way, wall)) is not None
    ]
    if not gains:
        return "not all rows of the blog's table were measured, so that the orders cannot be compared"
    here, there, row = max(gains, key=lambda each: abs(each[0] / each[1] - 1))
    return (
        "Self CPU time and wall time order the ways alike, by other factors: "
        f"{BY_NAME[row.way].label} takes {here:.2f} times less Self CPU time and {there:.2f} times less wall time than no "
        f"graph, because {_COUNTS}"
    )


_COUNTS = "Self CPU time adds up what the host does, the profiler's own work and the waiting for the GPU"


def _why(first: Row, second: Row) -> str:
    """Say why the host's time makes no difference between two ways."""
    spent = f"{_spent(first)} and {_spent(second)} of a step"
    if all(wall(row).median <= _HIDDEN * busy(row).median for row in (first, second)):
        return f"{_COUNTS}, and here the host is done before the GPU, which is busy for {spent}"
    return f"{_COUNTS}, and a step takes as long as the slower of host and GPU; the GPU is busy for {spent}"


def _spent(row: Row) -> str:
    return duration(busy(row).median)
