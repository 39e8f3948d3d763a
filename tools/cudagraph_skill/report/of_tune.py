"""Make a page of the ways of a call that were tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.report.page import Bar, Cell, Page, Table
from cudagraph_skill.text import duration
from cudagraph_skill.tune import output
from cudagraph_skill.tune.choice import choice
from cudagraph_skill.tune.ways import EAGER

if TYPE_CHECKING:
    from cudagraph_skill.text import Steps
    from cudagraph_skill.tune.trials import Trial, Tuning


def page(tuning: Tuning, steps: Steps, code: str) -> Page:
    """Return the page of the trials and the code of the choice; without trials it has the check's sentence only."""
    checked, next_step = tuning.checked, output.next_step(tuning, steps)
    title = f"skill tune: {checked.target.name or checked.target.path}"
    found = choice(tuning.trials)
    if found is None:
        return Page(title, checked.verdict, output.said(tuning) if tuning.trials else checked.said, next_step)
    return Page(
        title=title,
        verdict="stay eager" if found.trial.name == EAGER else "graph",
        said=output.said(tuning),
        next=next_step,
        bars=[*(_bar(trial, trial is found.trial) for trial in tuning.trials if not trial.why), *_predicted(tuning)],
        tables=[table for table in (_timed(tuning), _not_tried(tuning)) if table.rows],
        code=code,
        notes=output.notes(tuning),
        facts=[("took", duration(tuning.seconds)), *((name, value) for name, value in checked.machine.items() if value)],
    )


def _bar(trial: Trial, chosen: bool) -> Bar:
    least, most = trial.spread
    kind = "now" if trial.name == EAGER else "graph" if chosen else "node" if trial.is_right else "wait"
    doubt = "" if trial.is_right or trial.agreement is None else f"; {trial.agreement.kind}, so not taken"
    said = f"{duration(trial.seconds)} ({duration(least)} to {duration(most)}){doubt}"
    return Bar(trial.name, kind, trial.seconds, least, most, said)


def _predicted(tuning: Tuning) -> list[Bar]:
    """Return how long the GPU works in a call: a graph of these kernels takes no less."""
    given = tuning.checked.map
    if given is None:
        return []
    return [Bar("the GPU works, in eager", "limit", given.busy, given.busy, given.busy, duration(given.busy))]


def _timed(tuning: Tuning) -> Table:
    rows = [list(map(Cell, output.cells(trial, tuning.trials))) for trial in tuning.trials if not trial.why]
    return Table("Ways", output.HEADINGS, rows)


def _not_tried(tuning: Tuning) -> Table:
    rows = [[Cell(trial.name), Cell(output.why(trial))] for trial in tuning.trials if trial.why]
    return Table("Not timed", ("way", "why"), rows)
