"""Draw a result: bars of wall time with their spread, next to Self CPU time with the published one, as SVG."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

from cudagraph_skill.bench import orders
from cudagraph_skill.bench.output import machine
from cudagraph_skill.bench.ways import BY_NAME, STEPS, WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.bench.orders import Spread
    from cudagraph_skill.bench.record import Bench, Result

WALL, SELF_CPU, INK, PUBLISHED = "#2a78b5", "#b0743a", "#222222", "#8a8a8a"
_LABEL, _PANEL, _GAP, _BAR, _PITCH, _HEAD, _AXIS = 310, 300, 70, 18, 28, 58, 34
_FONT = "font-family: sans-serif; font-size: 12px"


class Bar(NamedTuple):
    """One measure of one way, in the unit of its panel; `published` is what the blog has, or None."""

    label: str
    spread: Spread
    published: float | None = None


class Panel(NamedTuple):
    """The bars of one measure."""

    title: str
    colour: str
    bars: Sequence[Bar]

    @property
    def most(self) -> float:
        """Return the end of the axis: a round number that no bar exceeds."""
        largest = max(max(bar.spread.high, bar.published or 0.0) for bar in self.bars) or 1.0
        step = 10.0 ** math.floor(math.log10(largest))
        return next(step * times for times in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12) if step * times >= largest * 1.02)


def panels(result: Result) -> tuple[Panel, Panel] | None:
    """Return wall time in microseconds a step, and Self CPU time in milliseconds of all steps; None if nothing was measured."""
    rows = [row for row in map(result.row, BY_NAME) if row is not None]
    if not rows:
        return None
    published = {row.way: BY_NAME[row.way].published if WORKLOAD[result.workload].published else () for row in rows}
    walls = [Bar(BY_NAME[row.way].label, _in(orders.wall(row), 1e-6)) for row in rows]
    selves = [
        Bar(
            BY_NAME[row.way].label,
            _in(orders.self_cpu(row), 1e-3),
            max(published[row.way]) * 1e3 if published[row.way] else None,
        )
        for row in rows
    ]
    return Panel("wall time of a step, us", WALL, walls), Panel(
        f"Self CPU time of {STEPS} profiled steps, ms", SELF_CPU, selves
    )


def _in(spread: Spread, unit: float) -> Spread:
    return type(spread)(*(value / unit for value in spread))


def legend(result: Result) -> str:
    """Return what the marks of a figure mean."""
    published = "; the ring: published, on an RTX 5080" if WORKLOAD[result.workload].published else ""
    return f"bar: median, line: 10th to 90th percentile{published}"


def svg(bench: Bench) -> str:
    """Return a figure with a row of two panels for each workload."""
    drawn = [(result, both) for result in bench.results if (both := panels(result)) is not None]
    heights = [_HEAD + _PITCH * len(both[0].bars) + _AXIS for _, both in drawn]
    width, height = _LABEL + 2 * _PANEL + _GAP + 90, sum(heights) + 30
    root = ET.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        width=str(width),
        height=str(height),
        viewBox=f"0 0 {width} {height}",
        style=_FONT,
    )
    ET.SubElement(root, "rect", width="100%", height="100%", fill="white")
    top = 0
    for (result, both), tall in zip(drawn, heights, strict=True):
        _text(root, (12, top + 20), f"{result.workload}: {WORKLOAD[result.workload].said}", weight="bold")
        _text(root, (12, top + 38), legend(result), fill=PUBLISHED)
        for number, panel in enumerate(both):
            _panel(root, panel, _LABEL + number * (_PANEL + _GAP), top + _HEAD, with_labels=not number)
        top += tall
    _text(root, (12, height - 10), machine(bench), fill=PUBLISHED)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _panel(root: ET.Element, panel: Panel, left: int, top: int, with_labels: bool) -> None:
    scale, bottom = _PANEL / panel.most, top + _PITCH * len(panel.bars)
    for tick in (0.0, 0.5, 1.0):
        at = left + tick * _PANEL
        _line(root, (at, top), (at, bottom), "#dddddd", 1)
        _text(root, (at, bottom + 14), f"{tick * panel.most:g}", anchor="middle", fill=PUBLISHED)
    _text(root, (left, bottom + 29), panel.title, fill=panel.colour)
    for number, bar in enumerate(panel.bars):
        _bar(root, bar, (left, top + number * _PITCH), scale, panel.colour)
        if with_labels:
            _text(root, (left - 8, top + number * _PITCH + 17), bar.label, anchor="end")


def _bar(root: ET.Element, bar: Bar, at: tuple[int, int], scale: float, colour: str) -> None:
    left, top = at[0], at[1] + (_PITCH - _BAR) // 2
    middle, end = top + _BAR / 2, bar.spread.median * scale
    ET.SubElement(root, "rect", x=str(left), y=str(top), width=f"{end:.1f}", height=str(_BAR), fill=colour, opacity="0.8")
    low, high = left + bar.spread.low * scale, left + bar.spread.high * scale
    _line(root, (low, middle), (high, middle), INK, 1.5)
    for mark in (low, high):
        _line(root, (mark, middle - 4), (mark, middle + 4), INK, 1.5)
    most = high
    if bar.published is not None:
        centre = left + bar.published * scale
        ET.SubElement(root, "circle", cx=f"{centre:.1f}", cy=f"{middle:.1f}", r="5", fill="none", stroke=INK)
        most = max(high, centre + 5)
    _text(root, (most + 6, middle + 4), f"{bar.spread.median:.3g}" if bar.spread.median < 100 else f"{bar.spread.median:.0f}")


def _line(root: ET.Element, start: tuple[float, float], end: tuple[float, float], colour: str, wide: float) -> None:
    places = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
    look = {"stroke": colour, "stroke-width": f"{wide:g}"}
    ET.SubElement(root, "line", {**{name: f"{at:.1f}" for name, at in places.items()}, **look})


def _text(root: ET.Element, at: tuple[float, float], said: str, fill: str = INK, **style: str) -> None:
    names = {"anchor": "text-anchor", "weight": "font-weight"}
    look = {names[name]: value for name, value in style.items()}
    ET.SubElement(root, "text", {"x": f"{at[0]:.1f}", "y": f"{at[1]:.1f}", "fill": fill, **look}).text = said
