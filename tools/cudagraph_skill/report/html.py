"""Render a page as one HTML file that loads nothing and runs nothing."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import duration, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jinja2

    from cudagraph_skill.report.page import Page, Span, Split

KINDS = ("now", "graph", "limit", "idle", "gap", "node", "work", "other", "wait")
_GOOD = ("graph", "already", "safe", "measured")
_WIDTH, _MOST = 4000, 1500  # units of a timeline; spans that are drawn each for itself
_BINS, _LEVELS, _LEAST, _SLACK = 1000, 10, 0.02, 1e-6  # of more spans: parts of the timeline, degrees of density, of a launch
_TEMPLATES = Path(__file__).resolve().parent / "templates"


def rendered(page: Page) -> str:
    """Return the text of the file.

    Raises:
        SkillError: jinja2 is not installed (exit code 3).
    """
    longest = max([bar.most for bar in page.bars] + [bar.seconds for bar in page.bars], default=0.0)
    template = _environment().get_template("page.html.jinja")
    return template.render(
        page=page,
        good=page.verdict in _GOOD,
        kinds=KINDS,
        longest=longest,
        width=_WIDTH,
        percent=percent,
        total=_total,
        drawn=drawn,
        duration=duration,
    )


def percent(part: float, whole: float) -> str:
    """Return a share as a number for CSS, between 0 and 100."""
    return f"{100 * max(0.0, min(1.0, part / whole)):.2f}" if whole > 0 else "0"


def _total(split: Split) -> float:
    return sum(part.seconds for part in split.parts)


class Drawn(NamedTuple):
    """A rectangle of a timeline, in units of the drawing; `share` of it is filled, and drawn as dense as that."""

    start: float
    end: float
    kind: str
    name: str
    share: float = 1.0


def drawn(spans: Sequence[Span], length: float) -> list[Drawn]:
    """Return the rectangles for spans; many become bins that are as dense as what they hold.

    A trace may have 100,000 kernels in a step, and a browser draws some thousand rectangles at once.
    """
    if length <= 0:
        return []
    if len(spans) > _MOST:
        by_kind = ((kind, [span for span in spans if span.kind == kind]) for kind in KINDS)
        return [rectangle for kind, own in by_kind for rectangle in _binned(own, kind, length)]
    return [_single(span, length) for span in sorted(spans)]


def _single(span: Span, length: float) -> Drawn:
    start, end = (_WIDTH * max(0.0, min(1.0, at / length)) for at in (span.start, span.end))
    return Drawn(round(start, 1), round(max(end, start + 1), 1), span.kind, printable(span.name))


def _binned(spans: Sequence[Span], kind: str, length: float) -> list[Drawn]:
    """Return a rectangle for each run of bins that are equally full; a span that takes no time fills a part of its bin."""
    size = length / _BINS
    full, counts = [0.0] * _BINS, [0] * _BINS
    for span in spans:
        start, end = max(0.0, span.start), min(length, span.end if span.end > span.start else span.start + size * _LEAST)
        first, last = (min(_BINS - 1, max(0, int(at / size))) for at in (start, end))
        counts[first] += 1
        for number in range(first, last + 1):
            full[number] += max(0.0, min(end, (number + 1) * size) - max(start, number * size)) / size
    levels = [min(_LEVELS, ceil(share * _LEVELS - _SLACK)) for share in full]
    found: list[Drawn] = []
    for level, numbers in groupby(range(_BINS), lambda number: levels[number]):
        run = list(numbers)
        if level:
            name = f"{sum(counts[run[0] : run[-1] + 1])} together, {100 * level // _LEVELS} % of the time"
            unit = _WIDTH / _BINS
            found.append(Drawn(run[0] * unit, (run[-1] + 1) * unit, kind, name, level / _LEVELS))
    return found


@cache
def _environment() -> jinja2.Environment:
    try:
        import jinja2
    except ImportError:
        raise SkillError("an HTML report needs the package jinja2: pip install jinja2 (torch installs it too)", 3) from None
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
