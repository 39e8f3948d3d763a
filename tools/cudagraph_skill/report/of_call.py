"""Make a page of a call that was measured on this GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.decide import call, call_output
from cudagraph_skill.report.page import Bar, Cell, Lane, Page, Part, Span, Split, Table, named
from cudagraph_skill.text import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.capture import cost as costs
    from cudagraph_skill.capture.cost import Cost, Times
    from cudagraph_skill.capture.result import CaptureResult
    from cudagraph_skill.text import Steps


def page(result: CaptureResult, steps: Steps) -> Page:
    """Return the page of a decision; without costs it has the check's sentence only."""
    cost = result.cost
    if cost is None:
        return Page(f"skill decide: {result.target.name}", result.verdict, result.said, call_output.next_step(result, steps))
    now, graph = call.parts(cost)
    lanes, length = _lanes(cost)
    return Page(
        title=f"skill decide: {result.target.name or result.target.path}",
        verdict=call.verdict(result, cost) or "not known",
        said=call.said(result, cost),
        next=call_output.next_step(result, steps),
        bars=_bars(result, cost),
        limit=cost.limit.seconds if cost.limit is not None else None,
        splits=[split for split in (_split("now", now), _split("as a graph", graph)) if split.parts],
        lanes=lanes,
        length=length,
        tables=[table for table in (_kernels(cost), _findings(result)) if table.rows],
        notes=[*call_output.notes(cost), *([_PROFILED] if lanes else []), *result.notes],
        facts=[*_counted(cost), *((name, value) for name, value in result.machine.items() if value)],
    )


_PROFILED = "the timeline is of calls under a profiler, which slows the host: the times above are of calls without one"
_NAMED = {"eager": "eager", "graph": "replay"}


def _lanes(cost: Cost) -> tuple[list[Lane], float]:
    """Return the rows of the timelines, eager and replay on one scale, and the length of the longer one."""
    lanes = [
        Lane(f"{_NAMED[name]}: {row}", [Span(span.start, span.end, kind, _told(span)) for span in spans])
        for name, line in cost.timelines.items()
        if name in _NAMED
        for row, kind, spans in (("host submits", "node", line.host), ("GPU works", "work", line.gpu))
    ]
    shown = [lane for lane in lanes if lane.spans]
    return shown, max((span.end for lane in shown for span in lane.spans), default=0.0)


def _told(span: costs.Span) -> str:
    return f"{duration(span.end - span.start)} {named(span.name)}"


def _counted(cost: Cost) -> list[tuple[str, str]]:
    seen, limit = cost.kernels, cost.limit
    known = [("nodes", f"{seen.nodes:.0f} kernels, copies and fills a call")] if seen is not None else []
    known += [("capture", call_output.capture(cost))] if cost.graph is not None else []
    if limit is None:
        return known
    return [
        *known,
        ("work", f"{limit.products} products of {limit.flops / 1e9:.3g} GFLOP, {limit.bytes / 1e6:.3g} MB moved once"),
    ]


def _bars(result: CaptureResult, cost: Cost) -> list[Bar]:
    bars = [_bar("now", "now", cost.eager)]
    if cost.graph is not None:
        bars.append(_bar("as a graph, measured", "graph", cost.graph))
    if cost.predicted is not None and cost.within is not None:
        least, most = cost.within
        said = f"{duration(cost.predicted)} ({duration(least)} to {duration(most)})"
        bars.append(Bar("as a graph, predicted", "graph", cost.predicted, least, most, said))
    if (parts := call.as_parts(result)) is not None:
        middle = (parts.least + parts.most) / 2
        bars.append(Bar("as parts, predicted", "graph", middle, parts.least, parts.most, call_output.parts(parts)))
    if cost.limit is not None:
        seconds = cost.limit.seconds
        bars.append(Bar("limit of this GPU", "limit", seconds, seconds, seconds, duration(seconds)))
    return bars


def _bar(name: str, kind: str, times: Times) -> Bar:
    said = f"{duration(times.median)} ({duration(times.least)} to {duration(times.most)})"
    return Bar(name, kind, times.median, times.least, times.most, said)


def _split(name: str, parts: Sequence[call.Part]) -> Split:
    return Split(name, [Part(part.what, part.kind, part.seconds) for part in parts])


def _kernels(cost: Cost) -> Table:
    seen = cost.kernels
    rows = [
        [Cell(named(name)), Cell(duration(taken)), Cell(f"{100 * taken / seen.busy:.0f} %", taken / seen.busy)]
        for name, taken in (seen.longest if seen is not None and seen.busy > 0 else ())
        if seen is not None
    ]
    return Table("Longest kernels of an eager call", ("kernel", "time", "of the GPU's time"), rows)


def _findings(result: CaptureResult) -> Table:
    rows = [
        [Cell(f"{finding.path}:{finding.line}"), Cell(finding.id), Cell(finding.message)]
        for finding in result.findings
        if finding.observed
    ]
    return Table("In the way", ("line", "hazard", "what was seen"), rows)
