"""Write the timeline of a page as a Chrome trace, which ui.perfetto.dev and its trace processor read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.report.page import Page

_MICROSECONDS = 1e6


def trace(page: Page) -> str:
    """Return the lanes of a page as JSON: a process with a thread for each lane, and complete events in microseconds."""
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": list(_events(page)), "otherData": {"said": page.said}})


def _events(page: Page) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": page.title}}
    for number, lane in enumerate(page.lanes, 1):
        yield {"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": lane.name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": number, "args": {"sort_index": number}}
        for span in sorted(lane.spans):
            yield {
                "ph": "X",
                "name": printable(span.name) or lane.name,
                "cat": span.kind,
                "pid": 1,
                "tid": number,
                "ts": span.start * _MICROSECONDS,
                "dur": max(0.0, span.end - span.start) * _MICROSECONDS,
            }
