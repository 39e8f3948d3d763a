"""Write what was tried, and what to take, as text or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture import output as capture_output
from cudagraph_skill.text import duration, printable
from cudagraph_skill.tune.choice import choice, taken
from cudagraph_skill.tune.ways import COMPILE, EAGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.check.output import Reader
    from cudagraph_skill.text import Steps
    from cudagraph_skill.tune.choice import Choice
    from cudagraph_skill.tune.trials import Trial, Tuning

_AFTER = "references/after-capture.md#when-to-stop-a-replay-against-the-limit-of-skill-decide"
_NAMED = 3  # modules in a line
_OVERWRITTEN = "the next call overwrites its results: where the program keeps one, as in a list of losses, let it keep a clone"
HEADINGS = ("way", "against eager", "a call", "from", "to", "times", "memory", "set up")


def exit_code(tuning: Tuning) -> int:
    """Return 0 if a right way is faster than eager, 1 if none is, else that of the check."""
    if not tuning.trials:
        return capture_output.exit_code([tuning.checked])
    found = choice(tuning.trials)
    return 0 if found is not None and found.trial.name != EAGER else 1


def said(tuning: Tuning) -> str:
    """Return the choice as one sentence."""
    found = choice(tuning.trials)
    if found is None:
        return "not known: eager calls could not be timed"
    seconds = duration(found.trial.seconds)
    if found.trial.name == EAGER:
        noise = f" beyond the noise ({', '.join(found.tied)} are as fast)" if found.tied else ""
        return f"stay eager: no right way is faster{noise}; {seconds} a call"
    eager = next(trial.seconds for trial in tuning.trials if trial.name == EAGER)
    tied = f"; {' and '.join(found.tied)} as fast within the noise, and less simple" if found.tied else ""
    gain = f"{found.gain:.3g} times as fast as eager, {duration(eager)} to {seconds} a call"
    return f"{found.trial.name}: {gain}, {_equals(found)}{tied}"


def _equals(found: Choice) -> str:
    agreement = found.trial.agreement
    if agreement is None or agreement.kind == "equal":
        return "equal to it"
    compiled = "; to the bit what the compiled call gives without a graph" if agreement.compiled == "equal" else ""
    return f"equal but for rounding ({agreement.worst:.1e} in {agreement.path}){compiled}"


def text(tuning: Tuning, reader: Reader, code: str) -> str:
    """Write the table, the choice and its code; without trials, what kept the call from being tried."""
    if not tuning.trials:
        return capture_output.text(tuning.checked, "full", reader)
    rows = [HEADINGS, *(cells(trial, tuning.trials) for trial in tuning.trials if not trial.why)]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"tune: {tuning.checked.target.name}: {said(tuning)}", *(_line(row, wide) for row in rows)]
    lines += [f"  {trial.name:{wide[0]}}  {why(trial)}{_more(trial, reader.steps)}" for trial in tuning.trials if trial.why]
    lines += [f"note: {note}" for note in notes(tuning)]
    shown = ["", code.rstrip(), ""] if code else []
    return "\n".join([*map(printable, lines), *shown, f"next: {next_step(tuning, reader.steps)}"])


def _line(row: Sequence[str], wide: Sequence[int]) -> str:
    left = [f"{cell:{width}}" for cell, width in zip(row[:2], wide[:2], strict=True)]
    return "  " + "  ".join([*left, *(f"{cell:>{width}}" for cell, width in zip(row[2:], wide[2:], strict=True))])


def cells(trial: Trial, trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return the cells of a way that was timed, below `HEADINGS`."""
    eager = next((each for each in trials if each.name == EAGER and each.rounds), None)
    least, most = trial.spread
    times = f"{eager.seconds / trial.seconds:.2f}" if eager is not None else ""
    more = trial.rounds[0].memory - eager.rounds[0].memory if eager is not None and trial is not eager else 0
    return (
        trial.name, _against(trial), duration(trial.seconds), duration(least), duration(most), times,
        f"{more / 2**20:+.0f} MiB" if trial.name != EAGER else "", f"{trial.rounds[0].set_up:.1f} s",
    )  # fmt: skip


def _against(trial: Trial) -> str:
    agreement = trial.agreement
    if agreement is None:
        return ""
    if agreement.kind in ("equal", "unknown"):
        return agreement.kind
    return f"{agreement.kind}, {agreement.worst:.1e}" if agreement.worst < 1e9 else agreement.kind


def _more(trial: Trial, steps: Steps) -> str:
    return f"; more: {steps.explain(trial.explained)}" if trial.explained else ""


def why(trial: Trial) -> str:
    """Return why a way has no times, with the line."""
    return f"{trial.why} ({trial.path}:{trial.line})" if trial.path else trial.why


def notes(tuning: Tuning) -> list[str]:
    """Return what makes the result less certain, and what a way did wrong."""
    wrong = [
        f"{trial.name} is wrong from call {trial.agreement.call + 1} on, in {trial.agreement.path}"
        for trial in tuning.trials
        if trial.agreement is not None and trial.agreement.kind == "wrong"
    ]
    graphed = [
        f"{trial.name} has graphs of {', '.join(trial.modules[:_NAMED])}{', …' if len(trial.modules) > _NAMED else ''}"
        for trial in tuning.trials
        if trial.modules and trial.rounds
    ]
    way = taken(tuning.trials) if tuning.in_program else None
    kept = [_OVERWRITTEN] if way is not None and way.name != COMPILE else []
    return [*_once_fixed(tuning), *wrong, *graphed, *kept, *tuning.notes, *tuning.checked.notes]


def _once_fixed(tuning: Tuning) -> list[str]:
    """Return what the whole call would take as one graph if it captured."""
    given = tuning.checked.map
    if tuning.checked.verdict == "safe" or given is None:
        return []
    return [f"one graph of the whole call would take about {duration(given.as_graph())} (predicted), once it captures right"]


def next_step(tuning: Tuning, steps: Steps) -> str:
    """Return one command to paste."""
    return steps.read(_AFTER) if tuning.checked.verdict == "safe" else capture_output.next_step(tuning.checked, steps)


def data(tuning: Tuning, reader: Reader, code: str) -> dict[str, Any]:
    """Return the result as JSON data, beside what the check of the call gives; seconds and bytes."""
    found = choice(tuning.trials)
    tuned = {
        "way": found.trial.name if found else "",
        "said": said(tuning),
        "times": found.gain if found else None,
        "tied": list(found.tied) if found else [],
        "seconds": tuning.seconds,
        "ways": [_record(trial) for trial in tuning.trials],
        "code": code,
        "notes": notes(tuning),
    }
    return {
        **capture_output.data(tuning.checked, reader),
        "tuning": tuned if tuning.trials else None,
        "next": next_step(tuning, reader.steps),
    }


def _record(trial: Trial) -> dict[str, Any]:
    return {
        "name": trial.name,
        "against_eager": trial.agreement._asdict() if trial.agreement else None,
        "median": trial.seconds if trial.rounds else None,
        "rounds": [times._asdict() for times in trial.rounds],
        "modules": list(trial.modules),
        "why": why(trial),
        "explained": trial.explained,
    }
