"""Judge whether one graph around a call pays, by what the call costs on this GPU."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.capture import session
from cudagraph_skill.decide.decision import BUSY, GRAPH, LITTLE, is_busy, pays, percent, times
from cudagraph_skill.text import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudagraph_skill.capture.cost import Cost, Timeline
    from cudagraph_skill.capture.region_map import Region
    from cudagraph_skill.capture.request import Request
    from cudagraph_skill.capture.result import CaptureResult
    from cudagraph_skill.capture.session import Guests, Listener

FIX = "fix"
_COPIES = ("Memcpy", "Memset")


class Part(NamedTuple):
    """One part of the time of a call: `kind` is idle, gap (between nodes), node (at the shortest), other (copies) or work."""

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
    in_parts = _in_parts(as_parts(result), cost.eager.median)
    share = percent(min(1.0, cost.kernels.busy / cost.eager.median))
    return {
        GRAPH: f"graph it as a whole: {gain}; {numbers}",
        FIX: f"graph it as a whole once it captures right: {gain}{in_parts}; {numbers}",
        LITTLE: f"little to gain: {gain}; {numbers}",
        BUSY: f"do not: the GPU is busy for {share} of the call, and a graph only shortens the rest; {numbers}",
    }[judged]


def _in_parts(found: Parts | None, now: float) -> str:
    if found is None:
        return ""
    least, most = times(now / found.most), times(now / found.least)
    gain = least if least == most else f"{least} to {most}"
    return f"; parts of it now, {gain} times as fast (predicted)"


def parts(cost: Cost) -> tuple[list[Part], list[Part]]:
    """Return where the time of an eager call goes, and where that of a replay goes, measured or predicted."""
    seen, lines = cost.kernels, cost.timelines
    if seen is None or cost.as_graph is None:
        return [], []
    copied, copied_in_graph = (
        _beyond(line, seen.shortest) for line in (lines.get("eager"), lines.get("graph") or lines.get("eager"))
    )
    now = [
        Part("waiting for launches", "idle", cost.eager.median - seen.busy),
        *_works(seen.busy, seen.nodes, seen.shortest, copied),
    ]
    graph = [
        Part("gaps between nodes", "gap", cost.as_graph - seen.captured_busy),
        *_works(seen.captured_busy, seen.captured_nodes, seen.shortest, copied_in_graph),
    ]
    return [part for part in now if part.seconds > 0], [part for part in graph if part.seconds > 0]


def _beyond(line: Timeline | None, shortest: float) -> float:
    """Return the seconds that copies and fills of a timeline take beyond the shortest node."""
    spans = line.gpu if line is not None else ()
    return sum(max(0.0, span.end - span.start - shortest) for span in spans if span.name.startswith(_COPIES))


def _works(busy: float, nodes: float, shortest: float, copied: float) -> list[Part]:
    least = min(busy, nodes * shortest)
    copied = min(copied, busy - least)
    return [
        Part(f"{nodes:.0f} nodes at the shortest that one takes", "node", least),
        Part("copies and fills beyond that", "other", copied),
        Part("what they work beyond that", "work", busy - least - copied),
    ]


def is_serial(cost: Cost) -> bool:
    """Return whether a replay of several nodes was profiled in which none overlaps another."""
    line = cost.timelines.get("graph")
    spans = sorted(line.gpu) if line is not None else []
    return len(spans) > 1 and all(later.start >= earlier.end for earlier, later in pairwise(spans))


def is_tiny(cost: Cost) -> bool:
    """Return whether most of a replay is the price of having many nodes, which only fewer nodes shorten."""
    seen, as_graph = cost.kernels, cost.as_graph
    return seen is not None and as_graph is not None and seen.captured_nodes * (seen.shortest + seen.node) > as_graph / 2
