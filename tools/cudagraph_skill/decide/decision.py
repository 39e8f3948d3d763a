"""Judge whether one graph around a step pays, by what the step does now.

A replay takes the time that the GPU works, up to 0.35 us more for each node, and 10 us (references/profiling.md); between
instantiations the time of a node moves between nothing and that, so the prediction is a range. What a graph does not change is
added: waits for another stream or rank, and the CPU's own work where that is longer than all the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.capture.region_map import LAUNCH, NODE
from cudagraph_skill.decide.steps import WHOLE

if TYPE_CHECKING:
    from cudagraph_skill.decide.steps import Measured, Step

GRAPH, LITTLE, BUSY, ALREADY = "graph", "little", "busy", "already"
_BUSY = 0.95  # of the wall time, from which on nothing is left to gain
_GAIN = 1.1  # times as fast, below which the profiler's own cost may be all of it
_ALREADY = 0.5  # of the nodes
_LARGE = 10  # times, from which on no decimals are shown


class Decision(NamedTuple):
    """What to do with a step, and why: `verdict` is graph, little, busy or already; `fast` and `slow` are predicted seconds.

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
    if step.busy > _BUSY * step.wall:
        return BUSY
    return GRAPH if step.wall >= _GAIN * slow else LITTLE


def _said(verdict: str, step: Step, fast: float, slow: float) -> str:
    if verdict == ALREADY:
        return f"{step.in_graphs} of {step.nodes} nodes are in graphs already: what is left is the time that the GPU works"
    if verdict == BUSY:
        return f"do not: the GPU is busy for {_percent(step.busy / step.wall)} of the step, and a graph only shortens the rest"
    least, most = _shown(step.wall / slow), _shown(step.wall / fast)
    times = least if least == most else f"{least} to {most}"
    if verdict == LITTLE and step.host > step.busy:
        return (
            f"little to gain: {times} times as fast, because the CPU does something else than operations for "
            f"{_percent(step.host / step.wall)} of the step, which a graph does not take over"
        )
    if verdict == LITTLE and step.other > step.late + step.waits:
        return (
            f"little to gain: {times} times as fast, because launches come in time: for {_percent(step.other / step.wall)} of "
            "the step the GPU waits for another stream, a copy or another rank"
        )
    if verdict == LITTLE:
        return f"little to gain: {times} times as fast at best, which may be the cost of profiling: measure without a profiler"
    whole = "the trace is one step, and it" if step.name == WHOLE else "the whole step"
    return f"graph it: {times} times as fast, if {whole} becomes one graph"


def _shown(gain: float) -> str:
    return f"{gain:.1f}" if gain < _LARGE else f"{gain:.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _eats(step: Step) -> tuple[tuple[str, float], ...]:
    """Return what the GPU's idle time goes to; what is not between its work lies before the first or after the last of it."""
    inside = step.late + step.waits + step.other
    parts = (
        ("launches that come late", step.late),
        ("launches after the CPU waited for the GPU", step.waits),
        ("waits for another stream, a copy or another rank", step.other),
        ("before its first and after its last work", max(0.0, step.idle - inside)),
    )
    return tuple(sorted(((name, seconds) for name, seconds in parts if seconds > 0), key=lambda part: -part[1]))
