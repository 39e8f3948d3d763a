"""Write the timeline of a page as a Chrome trace, which ui.perfetto.dev and its trace processor read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudagraph_skill.report.page import Page, Span

_NANOSECONDS, _OF_A_MICROSECOND = 1e9, 1000


def trace(page: Page) -> str:
    """Return the lanes of a page as JSON: a process with a thread for each lane, and complete events in microseconds.

    The events of a thread have to nest, so those that overlap, as of two streams, are on threads of their own.
    """
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": list(_events(page)), "otherData": {"said": page.said}})


def _events(page: Page) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": page.title}}
    threads = [
        (lane.name + f" ({place})" * (place > 1), lane.name, spans)
        for lane in page.lanes
        for place, spans in enumerate(_apart(lane.spans), 1)
    ]
    for number, (name, lane_name, spans) in enumerate(threads, 1):
        yield {"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": number, "args": {"sort_index": number}}
        for span in spans:
            start, end = _within(span)
            yield {
                "ph": "X",
                "name": printable(span.name) or lane_name,
                "cat": span.kind,
                "pid": 1,
                "tid": number,
                "ts": start / _OF_A_MICROSECOND,
                "dur": (end - start) / _OF_A_MICROSECOND,
            }


def _apart(spans: Iterable[Span]) -> list[list[Span]]:
    """Put spans into as few rows as hold them without overlaps."""
    rows: list[list[Span]] = []
    for span in sorted(spans):
        start, _ = _within(span)
        row = next((row for row in rows if _within(row[-1])[1] <= start), None)
        if row is None:
            rows.append([span])
        else:
            row.append(span)
    return rows


def _within(span: Span) -> tuple[int, int]:
    """Return start and end in nanoseconds."""
    start, end = (round(seconds * _NANOSECONDS) for seconds in (span.start, span.end))
    return start, max(start, end)
