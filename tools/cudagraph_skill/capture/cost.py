"""What a call costs, as a guest measured it: eager, as one graph, and at the limit of the GPU; seconds and bytes.

The prediction for one graph is the time that the GPU works in eager, the price of a node for each, and of a replay. Both prices
are those of small kernels in a row on the same GPU (guest/calibration.py). Between instantiations the price of a node moves,
and kernels take a little less or more in a graph than in eager (references/profiling.md), so there is a range beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture.region_map import LAUNCH, NODE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_IN_A_GRAPH = (0.96, 1.02)  # times as long as in eager: the least and the most that was seen of a call's kernels together


class Times(NamedTuple):
    """Seconds of a call: the median, the least and the most of batches."""

    median: float
    least: float
    most: float


class Limit(NamedTuple):
    """What the call must do, and the seconds below which this GPU cannot do it.

    `bytes` are moved in all, `products` is the number of products of matrices, convolutions and attentions, `flops` theirs.
    """

    seconds: float
    bytes: int
    products: int
    flops: int


class Kernels(NamedTuple):
    """The GPU's part of an eager call: seconds that it works, the nodes (mean, least, most of a call), the longest by name.

    `captured_busy` and `captured_nodes` are those on the path that the call takes while a stream captures. `node` are the
    seconds that a graph adds for each node, `replay` for each replay, `shortest` those of the shortest kernel.
    """

    busy: float
    nodes: float
    least: int
    most: int
    longest: Sequence[tuple[str, float]]
    captured_busy: float
    captured_nodes: float
    node: float
    replay: float
    shortest: float


class Span(NamedTuple):
    """What the GPU or the host did: seconds from the beginning of the call, and its name."""

    start: float
    end: float
    name: str


class Timeline(NamedTuple):
    """The work of the GPU in one call, and what the host did to submit it, as a profiler saw it, which slows the host."""

    gpu: Sequence[Span]
    host: Sequence[Span]


@dataclass(frozen=True)
class Cost:
    """What one call costs.

    `submit` are the seconds after which an eager call returns. `graph` are measured replays, `capture` and `memory` the seconds
    and bytes of the capture; None where replays are not right. `kernels` and `limit` are None if the profile, or the count of
    the work, did not come. `timelines` has "eager" calls and replays of the "graph", where they were profiled.
    """

    eager: Times
    submit: float
    graph: Times | None
    capture: float | None
    memory: int | None
    kernels: Kernels | None
    limit: Limit | None
    timelines: Mapping[str, Timeline] = field(default_factory=dict)

    @property
    def predicted(self) -> float | None:
        """Return the predicted seconds of the call as one graph."""
        seen = self.kernels
        return (
            None if seen is None else min(self.eager.median, seen.captured_busy + seen.node * seen.captured_nodes + seen.replay)
        )

    @property
    def within(self) -> tuple[float, float] | None:
        """Return the range of the prediction: short kernels and nodes that cost nothing, and the most that was seen of both."""
        seen = self.kernels
        if seen is None:
            return None
        short, long = (factor * seen.captured_busy for factor in _IN_A_GRAPH)
        most = long + max(NODE, seen.node) * seen.captured_nodes + LAUNCH
        return min(self.eager.median, short), min(self.eager.median, most)

    @property
    def as_graph(self) -> float | None:
        """Return the seconds of the call as one graph, measured if they were, else predicted."""
        return self.graph.median if self.graph is not None else self.predicted

    @property
    def break_even(self) -> int | None:
        """Return the number of calls after which the capture has paid; None if it never does, or was not made."""
        if self.graph is None or self.capture is None or self.graph.median >= self.eager.median:
            return None
        return -int(-self.capture // (self.eager.median - self.graph.median))


def is_costs(given: Any) -> bool:
    """Return whether a part of a result has costs, of the types that are read from it."""
    if not isinstance(given, dict) or not _are_times(given.get("eager")) or not _is_number(given.get("submit")):
        return False
    if given.get("graph") is not None and not (_are_times(given["graph"]) and _is_number(given.get("capture"))):
        return False
    parts = (("busy", _has_profile), ("floor", _has_limit), ("timelines", _has_timelines))
    return all(given.get(name) is None or is_right(given) for name, is_right in parts)


_PRICES = ("captured_busy", "captured_nodes", "node", "replay", "shortest")
_PROFILE = ("busy", "nodes", "nodes_least", "nodes_most", *_PRICES)


def _has_profile(given: dict[str, Any]) -> bool:
    kernels = given.get("kernels")
    if not isinstance(kernels, list) or not all(_is_number(given.get(name)) for name in _PROFILE):
        return False
    return all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and _is_number(pair[1]) for pair in kernels
    )


def _has_limit(given: dict[str, Any]) -> bool:
    products = given.get("products")
    if not isinstance(products, dict) or not all(_is_number(given.get(name)) for name in ("bytes", "floor")):
        return False
    return all(
        isinstance(kind, dict) and all(_is_number(kind.get(name)) for name in ("count", "flops")) for kind in products.values()
    )


def _has_timelines(given: dict[str, Any]) -> bool:
    lines = given["timelines"]
    return isinstance(lines, dict) and all(isinstance(line, dict) and _is_timeline(line) for line in lines.values())


def _is_timeline(line: dict[str, Any]) -> bool:
    names, rows = line.get("names"), [line.get("gpu"), line.get("host")]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False
    return all(isinstance(row, list) and all(_is_span(span, len(names)) for span in row) for row in rows)


def _is_span(span: Any, names: int) -> bool:
    whole = isinstance(span, list) and len(span) == 3 and all(type(number) is int for number in span)
    return whole and span[1] >= 0 and 0 <= span[2] < names


def _are_times(given: Any) -> bool:
    return isinstance(given, dict) and all(_is_number(given.get(name)) for name in Times._fields)


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and given >= 0


def of_result(given: Mapping[str, Any]) -> Cost:
    """Return the cost in a guest's result for which `is_costs` holds."""
    profiled = given.get("busy") is not None
    return Cost(
        eager=_times(given["eager"]),
        submit=float(given["submit"]),
        graph=_times(given["graph"]) if given.get("graph") else None,
        capture=float(given["capture"]) if given.get("graph") else None,
        memory=int(given.get("memory") or 0) if given.get("graph") else None,
        kernels=_kernels(given) if profiled else None,
        limit=_limit(given) if given.get("floor") is not None else None,
        timelines={name: _timeline(line) for name, line in (given.get("timelines") or {}).items()},
    )


def _timeline(line: Mapping[str, Any]) -> Timeline:
    names = line["names"]
    gpu, host = (
        [Span(start / 1e9, (start + length) / 1e9, names[number]) for start, length, number in line[row]]
        for row in ("gpu", "host")
    )
    return Timeline(gpu, host)


def _times(given: Mapping[str, Any]) -> Times:
    return Times(*(float(given[name]) for name in Times._fields))


def _kernels(given: Mapping[str, Any]) -> Kernels:
    longest = [(str(name), float(seconds)) for name, seconds in given["kernels"]]
    prices = (float(given[name]) for name in _PRICES)
    return Kernels(given["busy"], given["nodes"], given["nodes_least"], given["nodes_most"], longest, *prices)


def _limit(given: Mapping[str, Any]) -> Limit:
    kinds = given["products"].values()
    return Limit(given["floor"], given["bytes"], sum(kind["count"] for kind in kinds), sum(kind["flops"] for kind in kinds))
