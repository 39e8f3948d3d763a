"""Measure what a call costs: eager, as one graph, and at the limit of this GPU.

The order is part of the measurement: eager calls are timed first; after the check, replays and eager calls in turns if replays
are right, then the prices and rates of the GPU itself; a profiler runs only after all that.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import statistics
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cudagraph_skill.capture.guest import (
    calibration,
    checks,
    load,
    nodes,
    operations,
    regions,
    spans,
    timing,
    verdict,
    why_failed,
    work,
)

if TYPE_CHECKING:
    from cudagraph_skill.capture.guest.load import Subject

_PROFILED, _KERNELS = 3, 8  # calls; kernels that are named


def measured(source: load.Source, report: Any) -> dict[str, Any]:
    """Return the result of the check, with `costs` where eager calls came back."""
    try:
        costs = _eager(source, report)
    except Exception as error:  # noqa: BLE001 - of the user's code; the check says what it is
        report.step("cost", "skipped", f"measuring it raised {why_failed.shown(error)}")
        return verdict.checked(source, report)
    result = verdict.checked(source, report)
    if result["verdict"] not in _CAPTURED:
        return result
    report.draft({**result, "costs": costs})
    try:
        costs |= _later(source, report, result["notes"], replays=result["verdict"] == "safe")
    except Exception as error:  # noqa: BLE001 - memory is short, or the GPU stopped: what is known stands
        said = f"after the check, measuring raised {why_failed.shown(error)}"
        report.step("cost", "failed", said)
        result["notes"].append(said)
    with contextlib.suppress(Exception):  # as in the check: what could not be put back is the user's object
        source.put_back()
    return {**result, "costs": costs}


_CAPTURED = ("safe", "capture_error", "silent_wrong", "not_repeatable")


def _eager(source: load.Source, report: Any) -> dict[str, Any]:
    """Time eager calls."""
    report.progress("timing eager calls")
    start = time.monotonic()
    why = verdict.unusable()
    if why:
        raise RuntimeError(why)
    subject = source.fresh()
    warm_ups = _warmed_up(subject)
    submit = statistics.median(_submitted(subject, warm_ups + number) for number in range(timing.FEW))
    times = timing.in_turns({"eager": timing.calls(subject, warm_ups + timing.FEW)})["eager"]
    report.step("cost", "ok", f"eager calls timed: {times.median * 1e6:.0f} us", time.monotonic() - start)
    return {"eager": times._asdict(), "submit": submit, "graph": None, "capture": None, "busy": None}


def _warmed_up(subject: Subject) -> int:
    """Make the calls before a capture; return their number."""
    warm_ups = checks.warm_ups_of(subject)
    checks.warm_up(subject, warm_ups)
    return warm_ups


def _submitted(subject: Subject, number: int) -> float:
    """Return the seconds after which a call returns."""
    args, kwargs = checks.arguments(subject, number)
    torch.cuda.synchronize()
    start = time.perf_counter()
    subject.call(*args, **kwargs)
    taken = time.perf_counter() - start
    torch.cuda.synchronize()
    return taken


def _later(source: load.Source, report: Any, notes: list[str], replays: bool) -> dict[str, Any]:
    """Time replays beside eager calls if they are right; count the work of a call; then profile calls."""
    report.progress("timing replays" if replays else "measuring the GPU")
    start = time.monotonic()
    costs = _replayed(source.fresh()) if replays else {}
    chains = calibration.Chains()
    subject = source.fresh()
    first = _warmed_up(subject)
    counted, rates = _counted(subject, first, notes)
    profiled = _profiled(subject, first + 1)
    captured = _as_captured(subject, first + 1 + _PROFILED, notes) or profiled
    prices = chains.prices()
    lines = {"eager": profiled.timeline, **(_profiled_replay(source.fresh()) if replays else {})}
    report.step("cost", "ok", f"{profiled.nodes:.0f} kernels, copies and fills a call", time.monotonic() - start)
    if counted is not None and rates is not None:
        limit = floor(counted, rates, prices.shortest, profiled.busy)
        costs |= {"bytes": counted.bytes, "products": _by_kind(counted), "floor": limit, "rates": rates._asdict()}
    return {
        **costs,
        "busy": profiled.busy,
        "nodes": profiled.nodes,
        "nodes_least": profiled.least,
        "nodes_most": profiled.most,
        "kernels": profiled.kernels,
        "timelines": lines,
        "captured_busy": captured.busy,
        "captured_nodes": captured.nodes,
        **prices._asdict(),
    }


def _counted(subject: Subject, number: int, notes: list[str]) -> tuple[work.Work | None, calibration.Rates | None]:
    """Count the work of one call, and measure how fast this GPU does such work; None of both, and a note, where that fails."""
    try:
        counted = work.counted(subject, *checks.arguments(subject, number))
        return counted, calibration.rates(product.kind for product in counted.products)
    except Exception as error:  # noqa: BLE001 - memory is short, or tensors of a kind that cannot be counted
        notes.append(f"the limit of this GPU is not known: counting the work raised {why_failed.shown(error)}")
        return None, None


def _replayed(subject: Subject) -> dict[str, Any]:
    """Capture the call once more, and time its replays and eager calls in turns."""
    warm_ups = _warmed_up(subject)
    gc.collect()
    torch.cuda.empty_cache()  # a capture does so first: what it gives back would hide what the graph takes
    free, start = torch.cuda.mem_get_info()[0], time.perf_counter()
    attempt = checks.capture(subject, warm_ups)
    if attempt.error is not None:
        raise RuntimeError(f"a second capture failed: {why_failed.shown(attempt.error)}") from attempt.error
    nodes.ready(attempt.graph)
    torch.cuda.synchronize()
    seconds, memory = time.perf_counter() - start, max(0, free - torch.cuda.mem_get_info()[0])
    times = timing.in_turns({"eager": timing.calls(subject, warm_ups + 1), "graph": timing.replays(attempt.graph)})
    return {"capture": seconds, "memory": memory, **{name: found._asdict() for name, found in times.items()}}


class Profile(NamedTuple):
    """What a profile shows of a call: seconds that the GPU works, its nodes (mean, least, most), the longest kernels, its time line."""

    busy: float
    nodes: float
    least: int
    most: int
    kernels: list[tuple[str, float]]
    timeline: dict[str, Any]


def _profiled(subject: Subject, first: int) -> Profile:
    """Profile calls from number `first` on."""
    given = [checks.arguments(subject, first + number) for number in range(_PROFILED)]
    found = spans.profiled([functools.partial(subject.call, *args, **kwargs) for args, kwargs in given])
    events = [event for call in found.work for event in call]
    longest: Counter[str] = Counter()
    for event in events:
        longest[event.name()] += event.duration_ns()
    counts = [len(call) for call in found.work]
    return Profile(
        regions.union((event.start_ns(), event.start_ns() + event.duration_ns()) for event in events) / 1e9 / _PROFILED,
        sum(counts) / _PROFILED,
        min(counts),
        max(counts),
        [(name, taken / 1e9 / _PROFILED) for name, taken in longest.most_common(_KERNELS)],
        found.timeline(),
    )


def _profiled_replay(subject: Subject) -> dict[str, Any]:
    """Capture the call once more, and return the time line of a replay; {} where that fails: all else was measured before."""
    attempt = checks.capture(subject, _warmed_up(subject))
    if attempt.error is not None:
        return {}
    attempt.graph.replay()
    return {"graph": spans.profiled([attempt.graph.replay] * 2).timeline()}


def _as_captured(subject: Subject, first: int, notes: list[str]) -> Profile | None:
    """Profile eager calls on the path that they take while a stream captures; None if no line asks for that, or it fails."""
    with operations.told_it_captures() as lines:
        try:
            found = _profiled(subject, first)
        except Exception as error:  # noqa: BLE001 - of the user's code, such as an optimizer that cannot be captured
            if lines:
                notes.append(
                    f"the prediction is of the eager path: that under capture raised {why_failed.shown(error)} in eager"
                )
            return None
    return found if lines else None


def floor(counted: work.Work, rates: calibration.Rates, shortest: float, busy: float) -> float:
    """Return seconds below which this GPU cannot do the work: each product at its rate, and all bytes moved once.

    Products follow one another, and none is shorter than the shortest kernel; all else is taken to be fused into them. A product
    of a kind without a rate, such as float8, counts as a kernel. A call that works for less, `busy` seconds, has reached the limit: the
    rates are the best of a few products and copies, and another one may be a little faster.
    """
    speed = rates.cache if counted.bytes < rates.cache_bytes else rates.memory
    products = sum(
        max(
            shortest,
            product.bytes / speed,
            product.flops / rates.products[product.kind] if product.kind in rates.products else 0.0,
        )
        for product in counted.products
    )
    return float(min(busy, max(products, counted.bytes / speed, shortest)))


def _by_kind(counted: work.Work) -> dict[str, dict[str, int]]:
    """Return the number and the FLOPs of products by what they multiply."""
    kinds: dict[str, dict[str, int]] = {}
    for product in counted.products:
        kind = kinds.setdefault(product.kind, {"count": 0, "flops": 0})
        kind["count"] += 1
        kind["flops"] += product.flops
    return kinds
