"""Make a page of a step in a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.decide import output, steps
from cudagraph_skill.decide.decision import IDLE
from cudagraph_skill.report.page import Bar, Cell, Lane, Page, Part, Span, Split, Table, named
from cudagraph_skill.text import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.decide import Decision
    from cudagraph_skill.decide.timeline import Timeline
    from cudagraph_skill.text import Steps

_GAPS = {
    "late": ("idle", "then a launch that came late"),
    "waited": ("wait", "then a launch after the CPU had waited"),
    "other": ("other", "then work that had been launched in time"),
}
_NAMED = 8  # kernels


def page(decision: Decision, timeline: Timeline, next_steps: Steps) -> Page:
    """Return the page of a decision from a trace, with the timeline of its typical step."""
    step, measured = decision.measured.typical, decision.measured
    lanes, length = _lanes(decision, timeline)
    return Page(
        title=f"skill decide: {step.name}",
        verdict=decision.verdict,
        said=decision.said,
        next=output.next_step(decision, next_steps),
        of="step",
        bars=_bars(decision),
        splits=[_split(decision)],
        lanes=lanes,
        length=length,
        tables=[table for table in (_kernels(decision), _refused(decision)) if table.rows],
        notes=output.notes(measured),
        facts=[
            ("nodes", f"{step.nodes:.0f} kernels, copies and fills a step"),
            ("steps", str(len(measured.steps)) + ", without the first" * bool(measured.left_out)),
            ("trace", measured.maker),
            ("gpu", measured.gpu),
        ],
    )


def _bars(decision: Decision) -> list[Bar]:
    step = decision.measured.typical
    walls = [each.wall for each in decision.measured.steps]
    said = f"{duration(step.wall)} ({len(walls)} steps, {duration(min(walls))} to {duration(max(walls))})"
    middle = (decision.fast + decision.slow) / 2
    graph = f"{duration(decision.fast)} to {duration(decision.slow)}"
    return [
        Bar("now", "now", step.wall, min(walls), max(walls), said),
        Bar("as a graph, predicted", "graph", middle, decision.fast, decision.slow, graph),
    ]


def _split(decision: Decision) -> Split:
    step = decision.measured.typical
    parts = [Part("the GPU works", "work", step.busy)]
    kinds = ("idle", "wait", "other", "gap")
    names = dict(zip(IDLE, kinds, strict=True))
    return Split("now", [*parts, *(Part(name, names[name], seconds) for name, seconds in decision.eats)])


def _lanes(decision: Decision, timeline: Timeline) -> tuple[list[Lane], float]:
    """Return the rows of the timeline of the typical step, and its length."""
    step = decision.measured.typical
    held = steps.content(timeline, step)
    begin, end = step.begin, max([step.end, *(work.end for work in held.work)])

    def span(start: float, stop: float, kind: str, name: str) -> Span:
        return Span(max(0.0, start - begin), max(0.0, stop - begin), kind, name)

    gpu = [span(work.start, work.end, "work", f"{work.name} {duration(work.end - work.start)}") for work in held.work]
    idle = [span(gap.start, gap.end, *_told(gap)) for gap in held.gaps if gap.end > begin]
    launches = [span(work.launched, work.launched, "node", work.name) for work in held.work if work.launched is not None]
    waits = [span(call.start, call.end, "wait", f"{call.name} {call.operation}") for call in held.waits]
    lanes = (Lane("GPU works", gpu), Lane("GPU idle", idle), Lane("launches", launches), Lane("CPU waits", waits))
    return [lane for lane in lanes if lane.spans], end - begin


def _told(gap: steps.Gap) -> tuple[str, str]:
    kind, why = _GAPS[gap.why]
    return kind, f"{duration(gap.end - gap.start)}: {why}"


def _kernels(decision: Decision) -> Table:
    step = decision.measured.typical
    rows = [
        [Cell(named(name)), Cell(duration(taken / 1e9)), Cell(f"{100 * share:.0f} %", share)]
        for name, taken in step.kernels.most_common(_NAMED)
        if (share := taken / 1e9 / step.in_kernels)
    ]
    return Table("Longest kernels", ("kernel", "time", "of the GPU's time"), rows)


def _refused(decision: Decision) -> Table:
    rows: Sequence[Sequence[Cell]] = [
        [Cell(refused.what), Cell(refused.operation), Cell(str(times)), Cell(output.hazard(refused))]
        for refused, times in decision.measured.typical.refused.most_common()
    ]
    return Table("What a capture would refuse", ("call", "operation", "times", "hazard"), rows)
