"""Make a page of a map: each region with its shares, and whether it captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.capture import map_output, region_map
from cudagraph_skill.report.page import Bar, Cell, Page, Table
from cudagraph_skill.text import duration

if TYPE_CHECKING:
    from cudagraph_skill.capture.region_map import Region, RegionMap
    from cudagraph_skill.capture.result import CaptureResult
    from cudagraph_skill.text import Steps

_DEEPEST = 12


def page(result: CaptureResult, steps: Steps) -> Page:
    """Return the page of a map; without a map it has the check's sentence only."""
    given = result.map
    title, next_step = f"skill map: {result.target.name or result.target.path}", map_output.next_step(result, steps)
    if given is None:
        return Page(title, result.verdict, result.said, next_step)
    return Page(
        title=title,
        verdict=result.verdict,
        said=_said(given),
        next=next_step,
        bars=_bars(given),
        tables=[table for table in (_regions(given), _fixes(given)) if table.rows],
        notes=result.notes,
        facts=[(name, value) for name, value in result.machine.items() if value],
    )


def _said(given: RegionMap) -> str:
    now, graph, busy = map(duration, (given.wall, given.as_graph(), given.busy))
    return (
        f"{given.whole.name}: {now} a call, {graph} as one graph (predicted); the GPU works for {busy}, with "
        f"{given.launches:.0f} launches"
    )


def _bars(given: RegionMap) -> list[Bar]:
    graphs = given.graphs()
    ways = [("now", "now", given.wall)]
    if graphs and graphs != [given.whole]:
        ways.append(("with graphs for what captures now", "graph", given.with_graphs(graphs)))
    ways.append(("as one graph, predicted", "graph", given.as_graph()))
    ways.append(("the GPU works", "limit", given.busy))
    return [Bar(name, kind, seconds, seconds, seconds, duration(seconds)) for name, kind, seconds in ways]


def _regions(given: RegionMap) -> Table:
    rows = [_row(given, depth, region) for depth, region in region_map.shown(given)]
    return Table("Parts", ("part", "GPU", "launches", "CPU", "graph"), rows)


def _row(given: RegionMap, depth: int, region: Region) -> list[Cell]:
    shares = ((region.gpu, given.whole.gpu), (region.launches, given.launches), (region.cpu, given.whole.cpu))
    named = f"{region.name} ({region.class_name})" if region.class_name else region.name
    bars = [Cell(f"{100 * part / whole:.0f} %", part / whole) if whole else Cell("-") for part, whole in shares]
    return [Cell(named, depth=min(depth, _DEEPEST)), *bars, Cell(map_output.graph(given, region))]


def _fixes(given: RegionMap) -> Table:
    return Table("To fix, the most first", ("part", "line", "hazard", "what was seen"), [_fix(part) for part in given.to_fix()])


def _fix(region: Region) -> list[Cell]:
    finding = region.finding
    if finding is None:
        return [Cell(region.name), Cell(""), Cell(""), Cell(region.said)]
    return [Cell(region.name), Cell(f"{finding.path}:{finding.line}"), Cell(finding.id), Cell(finding.message)]
