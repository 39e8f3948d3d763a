"""Judge whether one graph around a step pays, by what the step does now.

A replay takes the time that the GPU works, a price for each node and a launch (references/profiling.md). Between instantiations
the price of a node moves between nothing and its largest, so the prediction is a range. What a graph does not change is
added: waits for another stream or rank, and the CPU's own work where that is longer than all the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.capture.region_map import LAUNCH, NODE
from cudagraph_skill.decide.steps import WHOLE

if TYPE_CHECKING:
    from cudagraph_skill.decide.steps import Measured, Step

GRAPH, LITTLE, BUSY, ALREADY, UNMARKED = "graph", "little", "busy", "already", "unmarked"
IDLE = (  # what the GPU's idle time goes to
    "launches that come late",
    "launches after the CPU waited for the GPU",
    "waits for another stream, a copy or another rank",
    "before its first and after its last work",
)
_BUSY = 0.95  # of the wall time, from which on nothing is left to gain
_GAIN = 1.1  # times as fast, below which the profiler's own cost may be all of it
_ALREADY = 0.5  # of the nodes
_LARGE = 10  # times, from which on no decimals are shown


class Decision(NamedTuple):
    """What to do with a step, and why: `fast` and `slow` are predicted seconds.

    `verdict` is graph, little, busy, already, or unmarked where a graph would pay, but no step is marked in the trace.
    `said` is one sentence. `eats` is what the rest of the time goes to, the largest part first, with seconds.
    """

    verdict: str
    said: str
    measured: Measured
    fast: float
    slow: float
    eats: tuple[tuple[str, float], ...]


def decide(measured: Measured) -> Decision:
    """Judge the typical step of a trace."""
    step = measured.typical
    fast, slow = (min(step.wall, max(step.host, step.busy + step.other + price * step.nodes + LAUNCH)) for price in (0.0, NODE))
    verdict = _verdict(step, slow)
    return Decision(verdict, _said(verdict, step, fast, slow), measured, fast, slow, _eats(step))


def _verdict(step: Step, slow: float) -> str:
    if step.in_graphs > _ALREADY * step.nodes:
        return ALREADY
    if is_busy(step.busy, step.wall):
        return BUSY
    if not pays(step.wall, slow):
        return LITTLE
    return UNMARKED if step.name == WHOLE else GRAPH


def is_busy(busy: float, wall: float) -> bool:
    """Return whether the GPU works for nearly all of a time."""
    return busy > _BUSY * wall


def pays(now: float, as_graph: float) -> bool:
    """Return whether a graph is faster by more than measuring may be off."""
    return now >= _GAIN * as_graph


def _said(verdict: str, step: Step, fast: float, slow: float) -> str:
    least, most = times(step.wall / slow), times(step.wall / fast)
    gain = f"{least if least == most else f'{least} to {most}'} times as fast"
    return {
        ALREADY: f"{step.in_graphs:.0f} of {step.nodes:.0f} nodes are in graphs already: what is left is the GPU's own time",
        BUSY: f"do not: the GPU is busy for {percent(step.busy / step.wall)} of the step, and a graph only shortens the rest",
        LITTLE: f"little to gain: {gain}{_why_little(step)}",
        UNMARKED: f"no step is marked in the trace: taken as one, start-up included, a graph of it is {gain}; name a range "
        "with --step, or call prof.step()",
        GRAPH: f"graph it: {gain}, if the whole step becomes one graph",
    }[verdict]


def _why_little(step: Step) -> str:
    if step.host > step.busy:
        share = percent(step.host / step.wall)
        return (
            f", because the CPU does something else than operations for {share} of the step, which a graph does not take over"
        )
    if step.other > step.late + step.waits:
        share = percent(step.other / step.wall)
        return (
            f", because launches come in time: for {share} of the step the GPU waits for another stream, a copy or another rank"
        )
    return " at best, which may be the cost of profiling: measure without a profiler"


def times(gain: float) -> str:
    """Return a ratio with one decimal, and without from ten on."""
    return f"{gain:.1f}" if gain < _LARGE else f"{gain:.0f}"


def percent(share: float) -> str:
    """Return a share in whole percent."""
    return f"{100 * share:.0f} %"


def _eats(step: Step) -> tuple[tuple[str, float], ...]:
    """Return what the GPU's idle time goes to; what is not between its work lies before the first or after the last of it."""
    outside = max(0.0, step.idle - (step.late + step.waits + step.other))
    parts = zip(IDLE, (step.late, step.waits, step.other, outside), strict=True)
    return tuple(sorted(((name, seconds) for name, seconds in parts if seconds > 0), key=lambda part: -part[1]))
