"""Read a Chrome trace that torch.profiler exported (`export_chrome_trace`, `tensorboard_trace_handler`)."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any

from cudagraph_skill.decide.timeline import Call, Range, Timeline, Work, named
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
_CALLS = ("cuda_runtime", "cuda_driver")
_OTHER_GPUS = ("hip",)  # beginnings of the calls of other makers' runtimes
_MICROSECOND, _LATEST = 1e-6, 1e17  # the latter in microseconds: after the year 5000
_CLOCKS = 1e-3  # seconds by which the clocks of CPU and GPU may differ
_DEEPEST = 64  # operations that may have ended between a call and the one around it


def timeline(text: bytes, path: Path) -> Timeline:
    """Return the timeline of a trace.

    Raises:
        SkillError: it is no Chrome trace, or of another maker's GPU.
    """
    events, gpus, unread = _events(text, path)
    calls = [event for event in events if event["cat"] in _CALLS]
    launches = {number: event for event in calls if (number := _argument(event, "correlation")) is not None}
    if any(event["name"].startswith(_OTHER_GPUS) for event in calls):
        raise SkillError(f"skill decide: {path} is a trace of an AMD GPU: what is predicted here was measured on NVIDIA GPUs")
    operations = _Operations(event for event in events if event["cat"] == "cpu_op")
    times: Counter[Any] = Counter()
    for event in events:
        if event["cat"] in _KINDS:
            times[_argument(event, "device")] += event["dur"]
    busiest = max(times, key=lambda device: times[device], default=None)
    work = [event for event in events if event["cat"] in _KINDS and _argument(event, "device") == busiest]
    return Timeline(
        "torch.profiler",
        named(gpus.get(busiest, "")),
        [_work(event, launches.get(_argument(event, "correlation"))) for event in work],
        [_call(event, operations) for event in calls],
        [Range(named(event["name"]), *_span(event)) for event in events if event["cat"] == "user_annotation"],
        [_span(event) for event in events if event["cat"] in ("cpu_op", *_CALLS)],
        len(times),
        unread,
    )


def _events(text: bytes, path: Path) -> tuple[list[dict[str, Any]], dict[Any, str], int]:
    """Return the events that last, by their starts, the names of the GPUs by number, and how much work has no usable times."""
    try:
        trace = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SkillError(
            f"skill decide: {path} is neither a Chrome trace nor an SQLite export, or it was cut off ({error}); of an "
            ".nsys-rep make one with `nsys export --type sqlite`"
        ) from None
    whole = trace if isinstance(trace, dict) else {"traceEvents": trace}
    found, devices = whole.get("traceEvents"), whole.get("deviceProperties")
    if not isinstance(found, list):
        raise SkillError(f"skill decide: {path} is JSON without traceEvents: give it what prof.export_chrome_trace(FILE) wrote")
    last = [event for event in found if isinstance(event, dict) and event.get("ph") == "X"]
    events = [event for event in last if _is_span(event)]
    unread = sum(event.get("cat") in _KINDS for event in last if isinstance(event.get("cat"), str) and not _is_span(event))
    listed = devices if isinstance(devices, list) else []
    known = [device for device in listed if isinstance(device, dict) and isinstance(device.get("id"), int)]
    gpus = {device["id"]: str(device.get("name", "")) for device in known}
    origin = min((float(event["ts"]) for event in events), default=0.0)  # microseconds since 1970 leave few digits for a kernel
    moved = [{**event, "ts": float(event["ts"]) - origin} for event in events]
    return sorted(moved, key=lambda event: float(event["ts"])), gpus, unread


def _is_span(event: dict[str, Any]) -> bool:
    times = [event.get(key) for key in ("ts", "dur")]
    return all(isinstance(time, (int, float)) and 0 <= time < _LATEST for time in times) and all(
        isinstance(event.get(key), str) for key in ("cat", "name")
    )


def _span(event: dict[str, Any]) -> tuple[float, float]:
    start = float(event["ts"]) * _MICROSECOND
    return start, start + float(event["dur"]) * _MICROSECOND


def _argument(event: dict[str, Any], name: str) -> Any:
    arguments = event.get("args")
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, (int, str)) else None


def _work(event: dict[str, Any], launch: dict[str, Any] | None) -> Work:
    start, end = _span(event)
    launched = _span(launch)[0] if launch is not None else None
    if launched is not None and launched > start + _CLOCKS:  # that of other work, which has the same number
        launch = launched = None
    in_graph = launch is not None and "GraphLaunch" in launch["name"]
    return Work(named(event["name"]), _KINDS[event["cat"]], start, end, launched, in_graph)


def _call(event: dict[str, Any], operations: _Operations) -> Call:
    start, end = _span(event)
    return Call(named(event["name"]), start, end, operations.around(str(event.get("tid")), start, end))


class _Operations:
    """Finds the innermost operation around a moment of a thread."""

    def __init__(self, events: Iterable[dict[str, Any]]) -> None:
        self._of: dict[str, list[tuple[float, float, str]]] = {}
        for event in events:  # in the order of their starts, outer ones first
            self._of.setdefault(str(event.get("tid")), []).append((*_span(event), named(event["name"])))
        self._starts = {thread: [start for start, *_ in spans] for thread, spans in self._of.items()}

    def around(self, thread: str, start: float, end: float) -> str:
        """Return the name of the last operation that began before a call and ends after it; "" if there is none."""
        spans = self._of.get(thread, [])
        last = bisect_right(self._starts.get(thread, []), start)
        for began, ended, name in reversed(spans[max(0, last - _DEEPEST) : last]):
            if began <= start and ended >= end:
                return name
        return ""
