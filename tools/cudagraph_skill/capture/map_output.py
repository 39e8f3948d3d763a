"""Write the map of a callable as text or JSON."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture import region_map
from cudagraph_skill.capture.output import data as capture_data
from cudagraph_skill.capture.output import exit_code
from cudagraph_skill.capture.output import next_step as capture_step
from cudagraph_skill.capture.output import text as capture_text
from cudagraph_skill.capture.way_out import way_out
from cudagraph_skill.check import output
from cudagraph_skill.check.output import one_line
from cudagraph_skill.text import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.capture.region_map import Region, RegionMap
    from cudagraph_skill.capture.result import CaptureResult
    from cudagraph_skill.check.findings import Finding
    from cudagraph_skill.check.output import Reader
    from cudagraph_skill.text import Steps

__all__ = ["data", "exit_code", "text", "written"]
BUSY = "references/profiling.md#when-not-to-use-cuda-graphs-over-95--busy"
_BUSY = 0.95  # of the time of a call: above it no graph helps
_LONGEST, _DEEPEST, _LISTED = 48, 12, 6  # characters of a name; regions that one is inside of; names in a line, fixes
_WORDS = {
    "safe": "captures",
    "capture_error": "fails",
    "silent_wrong": "goes wrong",
    "not_repeatable": "eager does not repeat itself",
    "error_in_eager": "fails without a graph",
    "": "not tried",
    "lacking": "not tried",
    "misuse": "not tried",
}


def written(results: Sequence[CaptureResult], form: str, reader: Reader) -> str:
    """Write maps as json or text."""
    if form == "json":
        records = [data(result, reader) for result in results]
        return json.dumps(records[0] if len(records) == 1 else {"maps": records}, ensure_ascii=False)
    return "\n\n".join(text(result, reader) for result in results)


def data(result: CaptureResult, reader: Reader, *, short: bool = False) -> dict[str, Any]:
    """Return the map as JSON data, beside what a check of the whole gives; a `short` one has the regions of the text."""
    map_ = {"said": _head(result, result.map), **_map_data(result.map, reader, short)} if result.map else None
    return {**capture_data(result, reader), "map": map_, "next": next_step(result, reader.steps)}


def _map_data(given: RegionMap, reader: Reader, short: bool) -> dict[str, Any]:
    graphs = given.graphs()
    regions = [region for _, region in region_map.shown(given)] if short else given.regions
    return {
        "wall": given.wall,
        "cpu": given.cpu,
        "busy": given.busy,
        "launches": given.launches,
        "predicted": {"one graph": given.as_graph(), "what captures now": given.with_graphs(graphs)},
        "graphs": [region.number for region in graphs if region in regions],
        "fix_first": [region.number for region in given.to_fix() if region in regions],
        "not_tried": [region.number for region in given.not_tried() if region in regions],
        "regions": [
            {
                **region._asdict(),
                "finding": output.record(region.finding, reader) if region.finding else None,
                "graph": graph(given, region),
            }
            for region in regions
        ],
        "left_out": len(given.regions) - len(regions),
    }


def text(result: CaptureResult, reader: Reader) -> str:
    """Write one map for people; without a map, what kept the call from being measured."""
    if result.map is None:
        return capture_text(result, "full", reader)
    given = result.map
    parts = [_head(result, given), *_table(given), *_predictions(given), *_fixes(given, reader), *_not_tried(given)]
    return "\n".join(
        [*parts, *(f"note: {one_line(note)}" for note in result.notes), f"next: {next_step(result, reader.steps)}"]
    )


def next_step(result: CaptureResult, steps: Steps) -> str:
    """Return one command to paste."""
    given = result.map
    if given and _is_busy(given):
        return steps.read(BUSY)
    if given and (finding := next((region.finding for region in given.to_fix() if region.finding), None)):
        return steps.explain(finding.id)
    return capture_step(result, steps)


def _head(result: CaptureResult, given: RegionMap) -> str:
    machine = ", ".join(filter(None, [result.machine.get("gpu", ""), f"torch {result.machine.get('torch', '')}"]))
    return one_line(
        f"map of {result.target.name}: {duration(given.wall)} a call; it returns after {duration(given.cpu)}, and the GPU is "
        f"busy for {duration(given.busy)} ({_percent(given.busy, given.wall)}) with {given.launches:.0f} launches ({machine})"
    )


def _table(given: RegionMap) -> list[str]:
    """Return a line for each region; for neighbours that are like the same one, a line for all."""
    shown = region_map.shown(given)
    rows = [("region", "GPU", "launches", "CPU", "graph")]
    for (depth, *_), same in groupby(shown, _alike):
        regions = [region for _, region in same]
        rows.append(
            (
                f"{'  ' * min(depth, _DEEPEST)}{_name(given, regions)}"[:_LONGEST],
                _percent(sum(region.gpu for region in regions), given.whole.gpu),
                _percent(sum(region.launches for region in regions), given.launches),
                _percent(sum(region.cpu for region in regions), given.whole.cpu),
                graph(given, regions[0]),
            )
        )
    wide = max(len(name) for name, *_ in rows)
    lines = [
        one_line(f"  {name:{wide}}  {gpu:>5}  {launches:>8}  {cpu:>5}  {graph}".rstrip())
        for name, gpu, launches, cpu, graph in rows
    ]
    left_out = len(given.regions) - len(shown)
    return lines + [f"  left out: {left_out} parts that are small, or inside one that is like another"] * (left_out > 0)


def _alike(row: tuple[int, Region]) -> tuple[int, int, int, bool]:
    """Return what the rows have in common that share a line: depth, the region around them, and the one that they are like."""
    depth, region = row
    return (depth, region.inside, region.like, True) if region.like >= 0 else (depth, region.inside, region.number, False)


def _name(given: RegionMap, regions: Sequence[Region]) -> str:
    """Return the name of a region, or of the first and the last of several, within the one around them, and their class."""
    first, last = regions[0], regions[-1]
    around = given.by_number.get(first.inside)
    named = " to ".join(
        dict.fromkeys(region.name.removeprefix(f"{around.name}.") if around else region.name for region in (first, last))
    )
    return f"{named} ({first.class_name})" if first.class_name and first.class_name != named else named


def graph(given: RegionMap, region: Region) -> str:
    """Return whether a region captures, in words."""
    word = _WORDS.get(region.verdict, region.verdict)
    if given.inside_graph(region):
        return "in the graph around it"
    if region.kind == "backward" and not region.verdict:
        return "goes with its forward pass, not tried alone"
    if region.like in given.by_number:
        return f"{word}, like {given.by_number[region.like].name}"
    line = f": {region.finding.path}:{region.finding.line} {region.finding.id}" if region.finding else ""
    return f"{word}{line}"


def _predictions(given: RegionMap) -> list[str]:
    """Return what graphs would bring: for what captures now, and for the whole."""
    if not given.launches:
        return ["predicted: nothing: the profiler saw no work on the GPU, so the shares of its time are not known"]
    if _is_busy(given):
        share = _percent(given.busy, given.wall)
        return [f"predicted: no gain: the GPU is busy for {share} of the call, and graphs only shorten the rest"]
    graphs, whole = given.graphs(), given.whole
    if graphs == [whole]:
        return [_predicted(given, given.as_graph(), f"as one graph around {whole.name}")]
    names = _names([region.name for region in graphs if region.like < 0])
    equals = sum(region.like >= 0 for region in graphs)
    names += f", and {equals} like these" * (equals > 0)
    now = [_predicted(given, given.with_graphs(graphs), f"with graphs for what captures now: {names}")] if graphs else []
    return [*now, _predicted(given, given.as_graph(), f"as one graph around {whole.name}, after all fixes")]


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + f" and {len(names) - _LISTED} more" * (len(names) > _LISTED)


def _predicted(given: RegionMap, seconds: float, how: str) -> str:
    return one_line(f"predicted: {duration(seconds)} a call ({given.wall / seconds:.1f}x) {how}")


def _is_busy(given: RegionMap) -> bool:
    return given.busy > _BUSY * given.wall


def _fixes(given: RegionMap, reader: Reader) -> list[str]:
    """Return what to fix: the line, its fix and how much it alone keeps from capture."""
    lines = []
    regions = given.to_fix()
    for number, region in enumerate(regions[:_LISTED], 1):
        held, equals = given.held_up(region), given.equals(region)
        share = f"{_percent(held.cpu, given.whole.cpu)} of the CPU's time"
        also = f" and {len(equals)} like it" if equals else ""
        keeps = f"nothing else was seen to fail in {held.name} ({share})" if held is not region else share
        lines.append(one_line(f"fix {number}: {region.name}{also}: {keeps}"))
        lines += _finding(region.finding, reader) if region.finding else [f"  {one_line(region.said)}"] * bool(region.said)
    return lines + [f"and {len(regions) - _LISTED} more to fix: map again after these"] * (len(regions) > _LISTED)


def _finding(finding: Finding, reader: Reader) -> list[str]:
    way = way_out(finding.library) if finding.library else None
    return [
        f"  {output.head(finding, reader)}",
        f"  way out: {one_line(way.text)}" if way else f"  fix: {one_line(reader.known(finding).fix)}",
    ]


def _not_tried(given: RegionMap) -> list[str]:
    """Return the regions of which nothing is known, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for region in given.not_tried():
        by_reason.setdefault(region.said.removeprefix("not tried: "), []).append(region.name)
    return [one_line(f"not tried: {_names(names)}{f' ({reason})' if reason else ''}") for reason, names in by_reason.items()]


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"
