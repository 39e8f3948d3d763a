"""What a report shows, whatever it is about: a sentence, times beside each other, where they go, a timeline, tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Bar(NamedTuple):
    """One time, in seconds, with its range; `kind` chooses the colour: now, graph or limit."""

    name: str
    kind: str
    seconds: float
    least: float
    most: float
    said: str


class Part(NamedTuple):
    """A part of a time, in seconds; `kind` chooses the colour: idle, gap, node, work or other."""

    what: str
    kind: str
    seconds: float


class Split(NamedTuple):
    """A time that is divided into parts."""

    name: str
    parts: Sequence[Part]


class Span(NamedTuple):
    """Something that lasts from `start` to `end`, in seconds of the timeline; `kind` chooses the colour."""

    start: float
    end: float
    kind: str
    name: str


class Lane(NamedTuple):
    """One row of a timeline."""

    name: str
    spans: Sequence[Span]


def named(kernel: str) -> str:
    """Return the name of a kernel, or its beginning: template arguments may fill a page."""
    return kernel if len(kernel) <= _LONGEST else f"{kernel[: _LONGEST - 1]}…"


_LONGEST = 110  # characters of a kernel's name


class Cell(NamedTuple):
    """A cell of a table: text, and the share of a bar behind it (0 for none); `depth` indents it."""

    text: str
    share: float = 0.0
    depth: int = 0


class Table(NamedTuple):
    """A table with its headings."""

    name: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Page:
    """A report of a call or a step. `verdict` is one word for the sentence `said`.

    `limit`, in seconds, is drawn as a line through the bars, `length` are the seconds of the timeline that `lanes` show.
    """

    title: str
    verdict: str
    said: str
    next: str
    of: str = "call"
    bars: Sequence[Bar] = ()
    limit: float | None = None
    splits: Sequence[Split] = ()
    lanes: Sequence[Lane] = ()
    length: float = 0.0
    tables: Sequence[Table] = ()
    code: str = ""
    notes: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = field(default_factory=tuple)
