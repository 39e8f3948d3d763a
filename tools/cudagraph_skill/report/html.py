"""Render a page as one HTML file that loads nothing and runs nothing."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.errors import SkillError
from cudagraph_skill.report.page import Page, Span, Split
from cudagraph_skill.text import duration, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    import jinja2

KINDS = ("now", "graph", "limit", "idle", "gap", "node", "work", "other", "wait")
_GOOD = ("graph", "already", "safe")
_WIDTH, _NARROWEST = 4000, 2  # units of a timeline; what is closer together becomes one span
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


def drawn(spans: Iterable[Span], length: float) -> list[Span]:
    """Return spans in units of the drawing; neighbours of one kind that are too close to be told apart are one.

    A trace may have 100,000 kernels in a step, and a browser draws some thousand rectangles at once.
    """
    found: list[Span] = []
    for span in sorted(spans):
        start, end = (
            round(_WIDTH * max(0.0, min(1.0, moment / length))) if length > 0 else 0 for moment in (span.start, span.end)
        )
        last = found[-1] if found else None
        if last is not None and last.kind == span.kind and start - last.end <= _NARROWEST:
            found[-1] = last._replace(end=max(last.end, end), name=last.name if last.name == span.name else "several")
        else:
            found.append(Span(start, max(end, start + 1), span.kind, printable(span.name)))
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
