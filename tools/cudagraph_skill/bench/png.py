"""Draw the same figure as PNG, with matplotlib where it is installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

from cudagraph_skill.bench.output import machine
from cudagraph_skill.bench.plot import INK, PUBLISHED, legend, panels
from cudagraph_skill.bench.ways import WORKLOAD
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from cudagraph_skill.bench.plot import Panel
    from cudagraph_skill.bench.record import Bench


def refuse() -> None:
    """Raise if matplotlib is not installed.

    Raises:
        SkillError: the message says what to install.
    """
    if find_spec("matplotlib") is None:
        raise SkillError(
            f"a PNG is drawn by matplotlib, and {sys.executable} has none: `{sys.executable} -m pip install matplotlib`, or "
            "name a file that ends in .svg, which needs nothing",
            3,
        )


def png(bench: Bench) -> bytes:
    """Return a figure with a row of two panels for each workload."""
    refuse()
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - only where a PNG is wanted
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    drawn = [(result, both) for result in bench.results if (both := panels(result)) is not None]
    figure = Figure(figsize=(12, 3.2 * max(1, len(drawn))), layout="constrained")
    FigureCanvasAgg(figure)
    for number, (result, both) in enumerate(drawn):
        for place, panel in enumerate(both):
            axes = figure.add_subplot(len(drawn), 2, 2 * number + place + 1)
            _panel(axes, panel, with_labels=not place)
            title = legend(result) if place else f"{result.workload}: {WORKLOAD[result.workload].said}"
            axes.set_title(title, fontsize=7, loc="left")
    figure.supxlabel(machine(bench), fontsize=6, color=PUBLISHED)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _panel(axes: Any, panel: Panel, with_labels: bool) -> None:
    places = range(len(panel.bars))
    spreads = [bar.spread for bar in panel.bars]
    lows, highs = ([abs(each - spread.median) for each, spread in zip(ends, spreads, strict=True)] for ends in _ends(spreads))
    axes.barh(places, [spread.median for spread in spreads], xerr=[lows, highs], color=panel.colour, ecolor=INK, capsize=3)
    for place, bar in zip(places, panel.bars, strict=True):
        if bar.published is not None:
            axes.plot([bar.published], [place], marker="o", color=INK, fillstyle="none")
    axes.set_yticks(list(places), [bar.label for bar in panel.bars] if with_labels else [""] * len(panel.bars), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, panel.most)
    axes.set_xlabel(panel.title, fontsize=8)


def _ends(spreads: Any) -> tuple[list[float], list[float]]:
    return [spread.low for spread in spreads], [spread.high for spread in spreads]
