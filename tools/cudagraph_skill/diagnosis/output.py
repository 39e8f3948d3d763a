"""Format a diagnosis as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.diagnosis.sentences import sentences
from cudagraph_skill.text import as_json

if TYPE_CHECKING:
    from cudagraph_skill.diagnosis.result import Diagnosis, Verdict
    from cudagraph_skill.text import Steps

NOT_OURS = "No CUDA-graph error recognised"
ASK_AGAIN = "If graphs are involved, add that to the text"


def verdict(answer: Verdict, steps: Steps, log: str = "") -> str:
    """Return ranked causes as text: the first in full, the others in two lines each, the next command last.

    Fixes about frameworks that `log` does not show are left out.
    """
    parts = [_first(answer.diagnoses[0], steps, log)]
    others = [
        diagnosis for diagnosis in answer.diagnoses[1:] if diagnosis.seen or answer.decide
    ]  # beside a sure one, no mere neighbours
    parts += [_candidate(number, diagnosis, log) for number, diagnosis in enumerate(others, 2)]
    first, more = answer.diagnoses[0], steps.explain(answer.diagnoses[0].id)
    if answer.where:
        parts.append(f"your code: {answer.where}")
    if answer.decide:
        parts.append(f"to decide: {answer.decide}")
    if first.next or first.target or first.release:
        parts.append(f"more: {more}")
    return "\n".join([*parts, f"next: {_after(first, steps)}"])


def _after(diagnosis: Diagnosis, steps: Steps) -> str:
    """Return the command that goes on from a diagnosis."""
    if diagnosis.release:
        return steps.config(diagnosis.release)
    return steps.check(diagnosis.target) if diagnosis.target else diagnosis.next or steps.explain(diagnosis.id)


def _first(diagnosis: Diagnosis, steps: Steps, log: str) -> str:
    """Return the likeliest cause in full, with a line for each sentence of its fixes."""
    opening = f"1. {diagnosis.cause} ({diagnosis.confidence} confidence)  {'  '.join(diagnosis.see)}"
    lines = [opening, f"   {diagnosis.what}", *(f"   seen: {place}" for place in diagnosis.seen)]
    fixes = _fixes(diagnosis.fix, diagnosis.cause, steps, log)
    own = _fixes(diagnosis.here, diagnosis.cause, steps, log) if diagnosis.here else []
    first, *others = own or fixes
    lines += [f"   fix: {first}", *(f"   - {fix}" for fix in others)]
    return "\n".join([*lines, "   more fixes:", *(f"   - {fix}" for fix in fixes)] if own else lines)


def _fixes(text: str, cause: str, steps: Steps, log: str) -> list[str]:
    """Return the sentences of a fix; those about frameworks that the log does not show are counted."""
    kept, left_out = sentences(text, log)
    more = f"{left_out} more for frameworks that the log does not show: {steps.explain(cause)}"
    return [*kept, more] if left_out else kept


def _candidate(number: int, diagnosis: Diagnosis, log: str) -> str:
    """Return a less likely cause in two lines."""
    seen = f"; {diagnosis.seen[0]}" if diagnosis.seen else ""
    fix = sentences(diagnosis.here or diagnosis.fix, log)[0][0]
    return f"{number}. {diagnosis.cause} ({diagnosis.confidence} confidence{seen})\n   fix: {fix}"


def verdict_json(answer: Verdict, steps: Steps) -> str:
    """Return the same as one line of JSON; `diagnoses` is empty where the log shows no CUDA-graph problem."""
    return as_json(_data(answer, steps))


def _data(answer: Verdict, steps: Steps) -> dict[str, Any]:
    data: dict[str, Any] = {
        "diagnoses": [
            {
                "id": diagnosis.id,
                "cause": diagnosis.cause,
                "why": why(diagnosis),
                "fix": f"{diagnosis.here} {diagnosis.fix}".strip(),
                "confidence": diagnosis.confidence,
                "see": list(diagnosis.see),
                "next": _after(diagnosis, steps),
            }
            for diagnosis in answer.diagnoses
        ]
    }
    if not answer.diagnoses:
        data["note"] = NOT_OURS
    data.update({key: value for key, value in (("where", answer.where), ("decide", answer.decide)) if value})
    return data


def brief(answer: Verdict, steps: Steps, log: str) -> dict[str, Any]:
    """Return what `verdict` says as data: of the causes after the first only what tells them apart, and one fix."""
    data = _data(answer, steps)
    rows: list[dict[str, Any]] = []
    for diagnosis, row in zip(answer.diagnoses, data["diagnoses"], strict=True):
        if not rows:
            fixes = _fixes(diagnosis.fix, diagnosis.cause, steps, log)
            rows.append({**row, "fix": " ".join([diagnosis.here, *fixes]).strip()})
        elif diagnosis.seen or answer.decide:
            fix = sentences(diagnosis.here or diagnosis.fix, log)[0][0]
            short = {"fix": fix, "seen": list(diagnosis.seen[:1])}
            rows.append({name: row[name] for name in ("id", "cause", "confidence", "see")} | short)
    return {**data, "diagnoses": rows}


def why(diagnosis: Diagnosis) -> str:
    """Return what the cause is, and the places of the log that speak for it, quoted as data."""
    return (
        f"{diagnosis.what} Seen in the log: {'; '.join(diagnosis.seen)}"
        if diagnosis.seen
        else f"{diagnosis.what} (by the words of the log)"
    )
