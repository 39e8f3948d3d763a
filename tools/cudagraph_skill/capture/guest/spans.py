"""Profile calls, and keep what the GPU and the host did in the last of them as spans of time."""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd.profiler import profile, record_function

from cudagraph_skill.capture.guest import calibration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MARK = "cudagraph_skill call"
_MOST = 4000  # spans that are kept of a call
_SUBMITS = ("cudaLaunch", "cuLaunch", "cudaMemcpy", "cudaMemset", "cudaGraphLaunch")


class Profiled(NamedTuple):
    """The events of calls: the GPU's work in each, in the order in which it began, and what the host did to submit it."""

    starts: list[int]
    work: list[list[Any]]
    submits: list[list[Any]]

    def timeline(self) -> dict[str, Any]:
        """Return the last call: names, and the rows of the GPU and the host as [start, nanoseconds, number of the name].

        Times count from the call; of more than 4,000 spans in a row, the first are kept.
        """
        names: dict[str, int] = {}
        rows = {
            row: [
                [event.start_ns() - self.starts[-1], event.duration_ns(), names.setdefault(event.name(), len(names))]
                for event in calls[-1][:_MOST]
            ]
            for row, calls in (("gpu", self.work), ("host", self.submits))
        }
        return {**rows, "names": list(names)}


def profiled(calls: Sequence[Callable[[], object]]) -> Profiled:
    """Profile calls, each until the GPU has done it."""
    with profile(use_device="cuda", use_kineto=True) as recorded:
        for call in calls:
            torch.cuda.synchronize()
            with record_function(_MARK):
                call()
                torch.cuda.synchronize()
    events = list(recorded.kineto_results.events())
    starts = sorted(event.start_ns() for event in events if event.name() == _MARK and not calibration.on_gpu(event))
    submits = (event for event in events if not calibration.on_gpu(event) and event.name().startswith(_SUBMITS))
    return Profiled(starts, _by_call(starts, filter(calibration.is_work, events)), _by_call(starts, submits))


def _by_call(starts: list[int], events: Any) -> list[list[Any]]:
    """Return the events of each call, in the order in which they began, without those before the first."""
    parts: list[list[Any]] = [[] for _ in range(len(starts) + 1)]
    for event in sorted(events, key=lambda event: event.start_ns()):
        parts[bisect(starts, event.start_ns())].append(event)
    return parts[1:]
