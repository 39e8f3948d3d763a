"""Judge whether one graph around a call pays, by what the call costs on this GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.capture import session
from cudagraph_skill.decide.decision import BUSY, GRAPH, LITTLE, is_busy, pays, percent, times
from cudagraph_skill.text import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudagraph_skill.capture.cost import Cost
    from cudagraph_skill.capture.region_map import Region
    from cudagraph_skill.capture.request import Request
    from cudagraph_skill.capture.result import CaptureResult
    from cudagraph_skill.capture.session import Guests, Listener

FIX = "fix"


class Part(NamedTuple):
    """One part of the time of a call: `kind` is idle, gap (between nodes), node (at the shortest) or work (beyond that)."""

    what: str
    kind: str
    seconds: float


def measured(requests: Iterable[Request], guests: Guests, listener: Listener) -> Iterator[CaptureResult]:
    """Measure one call after the other; map those that do not capture, but would gain. Yields none after a cancel.

    Raises:
        SkillError: a target is not there, or the machine lacks something.
    """
    for request in requests:
        for result in session.examine([request._replace(measure="costs")], guests, listener):
            if result.cost is None or verdict(result, result.cost) != FIX:
                yield result
                continue
            mapped = next(session.mapped([request], guests, listener), None)
            if mapped is None:
                return
            lost = [] if mapped.map is not None else [f"its parts were not measured: {mapped.said}"]
            yield result._replace(map=mapped.map, notes=[*result.notes, *lost])


class Parts(NamedTuple):
    """The parts of a call that capture as they are, and the predicted seconds of the call with graphs of these.

    `least` is where host and GPU work at once, `most` where the call waits for the GPU between graphs.
    """

    graphs: list[Region]
    least: float
    most: float


def as_parts(result: CaptureResult) -> Parts | None:
    """Return what graphs of the parts bring; None where the call was not mapped, or no part captures."""
    given, cost = result.map, result.cost
    if given is None or cost is None or not given.graphs():
        return None
    graphs, now = given.graphs(), cost.eager.median
    least, most = (now * seconds / given.wall for seconds in (given.with_graphs(graphs), given.with_graphs_apart(graphs)))
    least = max(least, cost.as_graph or 0.0)  # not shorter than one graph of all
    return Parts(graphs, least, max(least, most))


def verdict(result: CaptureResult, cost: Cost) -> str:
    """Return graph, little, busy, or fix where a graph would pay if the call captured and replayed right; "" if unknown."""
    if cost.kernels is None or cost.as_graph is None:
        return ""
    if cost.graph is None and is_busy(cost.kernels.busy, cost.eager.median):
        return BUSY
    if not pays(cost.eager.median, cost.as_graph):
        return BUSY if is_busy(cost.kernels.busy, cost.eager.median) else LITTLE
    return GRAPH if result.verdict == "safe" else FIX


def said(result: CaptureResult, cost: Cost) -> str:
    """Return the decision as one sentence, with the three times: now, as a graph, at the limit."""
    judged, as_graph = verdict(result, cost), cost.as_graph
    if not judged or as_graph is None or cost.kernels is None:
        return f"not known: {duration(cost.eager.median)} a call now, and its kernels could not be profiled"
    numbers = f"{duration(cost.eager.median)} now, {duration(as_graph)} as a graph"
    numbers += f", {duration(cost.limit.seconds)} at the limit of this GPU" if cost.limit is not None else ""
    how = "measured" if cost.graph is not None else "predicted"
    gain = f"{times(cost.eager.median / as_graph)} times as fast ({how})"
    share = percent(min(1.0, cost.kernels.busy / cost.eager.median))
    return {
        GRAPH: f"graph it: {gain}; {numbers}",
        FIX: f"graph it once it captures right: {gain}; {numbers}",
        LITTLE: f"little to gain: {gain}; {numbers}",
        BUSY: f"do not: the GPU is busy for {share} of the call, and a graph only shortens the rest; {numbers}",
    }[judged]


def parts(cost: Cost) -> tuple[list[Part], list[Part]]:
    """Return where the time of an eager call goes, and where that of a replay goes, measured or predicted."""
    seen = cost.kernels
    if seen is None or cost.as_graph is None:
        return [], []
    now = [Part("waiting for launches", "idle", cost.eager.median - seen.busy), *_works(seen.busy, seen.nodes, seen.shortest)]
    graph = [
        Part("gaps between nodes", "gap", cost.as_graph - seen.captured_busy),
        *_works(seen.captured_busy, seen.captured_nodes, seen.shortest),
    ]
    return [part for part in now if part.seconds > 0], [part for part in graph if part.seconds > 0]


def _works(busy: float, nodes: float, shortest: float) -> list[Part]:
    least = min(busy, nodes * shortest)
    return [
        Part(f"{nodes:.0f} nodes at the shortest that one takes", "node", least),
        Part("what they work beyond that", "work", busy - least),
    ]


def is_tiny(cost: Cost) -> bool:
    """Return whether most of a replay is the price of having many nodes, which only fewer nodes shorten."""
    seen, as_graph = cost.kernels, cost.as_graph
    return seen is not None and as_graph is not None and seen.captured_nodes * (seen.shortest + seen.node) > as_graph / 2
