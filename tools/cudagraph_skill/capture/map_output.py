"""Write the map of a callable as text or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture import region_map
from cudagraph_skill.capture.output import data, exit_code, summary
from cudagraph_skill.check import output
from cudagraph_skill.check.output import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.capture.region_map import Region, RegionMap
    from cudagraph_skill.capture.result import CaptureResult
    from cudagraph_skill.check.output import Reader

__all__ = ["exit_code", "written"]
_LONGEST, _DEEPEST = 48, 12  # characters of a name; regions that one is inside of
_WORDS = {
    "safe": "captures",
    "capture_error": "fails",
    "silent_wrong": "goes wrong",
    "not_repeatable": "does not repeat itself",
    "error_in_eager": "fails without a graph",
    "lacking": "not tried",
    "misuse": "not tried",
}


def written(results: Sequence[CaptureResult], form: str, reader: Reader) -> str:
    """Write maps as json or text."""
    if form == "json":
        records = [_data(result, reader) for result in results]
        return json.dumps(records[0] if len(records) == 1 else {"maps": records}, ensure_ascii=False)
    return "\n\n".join(_text(result, reader) for result in results)


def _data(result: CaptureResult, reader: Reader) -> dict[str, Any]:
    return {**data(result, reader), "map": _map_data(result.map, reader) if result.map else None}


def _map_data(given: RegionMap, reader: Reader) -> dict[str, Any]:
    graphs = given.graphs()
    return {
        "wall": given.wall,
        "cpu": given.cpu,
        "busy": given.busy,
        "launches": given.launches,
        "predicted": {"one graph": given.as_graph(), "what captures now": given.with_graphs(graphs)},
        "graphs": [region.number for region in graphs],
        "fix first": [region.number for region in given.to_fix()],
        "not tried": [region.number for region in given.not_tried()],
        "regions": [
            {
                **region._asdict(),
                "finding": output.record(region.finding, reader) if region.finding else None,
                "graph": _graph(given, region),
            }
            for region in given.regions
        ],
    }


def _text(result: CaptureResult, reader: Reader) -> str:
    if result.map is None:
        return "\n".join([summary(result), *(f"note: {one_line(note)}" for note in result.notes)])
    given = result.map
    return "\n".join([_head(result, given), *_table(given), *_plans(given), *_fixes(given, reader), *_open(given)])


def _head(result: CaptureResult, given: RegionMap) -> str:
    machine = ", ".join(filter(None, [result.machine.get("gpu", ""), f"torch {result.machine.get('torch', '')}"]))
    return one_line(
        f"map of {result.target.name}: {_time(given.wall)} a call, the CPU works {_time(given.cpu)}, "
        f"the GPU {_time(given.busy)} in {given.launches:.0f} launches ({machine})"
    )


def _table(given: RegionMap) -> list[str]:
    rows = [
        (
            f"{'  ' * min(depth, _DEEPEST)}{_name(region)}"[:_LONGEST],
            _percent(region.gpu, given.whole.gpu),
            _percent(region.launches, given.launches),
            _percent(region.cpu, given.whole.cpu),
            _graph(given, region),
        )
        for depth, region in region_map.rows(given)
    ]
    rows.insert(0, ("region", "GPU", "launches", "CPU", "graph"))
    wide = max(len(name) for name, *_ in rows)
    return [
        one_line(f"  {name:{wide}}  {gpu:>5}  {launches:>8}  {cpu:>5}  {graph}".rstrip())
        for name, gpu, launches, cpu, graph in rows
    ]


def _name(region: Region) -> str:
    named = (
        region.name.rpartition(".")[2] if region.kind == "module" and region.name.rpartition(".")[2].isdigit() else region.name
    )
    return f"{named} ({region.class_name})" if region.class_name and region.class_name != named else named


def _graph(given: RegionMap, region: Region) -> str:
    """Return whether a region captures, in words."""
    if given.inside_graph(region):
        return "in the graph around it"
    if region.kind == "backward" and not region.verdict:
        return "with the forward pass that it belongs to: not tried alone"
    if region.like >= 0:
        return f"{_WORDS.get(region.verdict, region.verdict)}, as an equal part does"
    if not region.verdict:
        return region.said or "not tried"
    line = f": {region.finding.path}:{region.finding.line} {region.finding.id}" if region.finding else ""
    return f"{_WORDS.get(region.verdict, region.verdict)}{line}"


def _plans(given: RegionMap) -> list[str]:
    whole, graphs = given.as_graph(), given.graphs()
    lines = [f"one graph for the whole: {_time(whole)} a call, {given.wall / whole:.1f}x (predicted)"]
    if graphs and graphs[0].number != given.whole.number:
        now = given.with_graphs(graphs)
        names = ", ".join(region.name for region in graphs[:4]) + ", …" * (len(graphs) > 4)
        lines.append(
            one_line(f"graphs for what captures now ({names}): {_time(now)} a call, {given.wall / now:.1f}x (predicted)")
        )
    return lines


def _fixes(given: RegionMap, reader: Reader) -> list[str]:
    """Return what to mend, in the order of the time that it holds up."""
    lines = []
    for number, region in enumerate(given.to_fix(), 1):
        share = _percent(region.cpu, given.whole.cpu)
        lines.append(one_line(f"fix {number}: {region.name}, {share} of the CPU's time"))
        lines.append(f"  {output.head(region.finding, reader)}" if region.finding else f"  {one_line(region.said)}")
    return lines


def _open(given: RegionMap) -> list[str]:
    left = given.not_tried()
    return [one_line(f"not tried: {', '.join(region.name for region in left[:8])}{', …' * (len(left) > 8)}")] if left else []


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"
