"""Format a diagnosis as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.text import as_json

if TYPE_CHECKING:
    from cudagraph_skill.diagnosis.result import Diagnosis, Verdict
    from cudagraph_skill.text import Steps

NOT_OURS = "not a CUDA-graph error as far as this log shows"
ASK_AGAIN = "if graphs are involved, say so"


def verdict(found: Verdict, steps: Steps) -> str:
    """Ranked causes for reading: the first in full, the others as the candidates that they are, the next command last."""
    parts = [_first(found.diagnoses[0])]
    others = [each for each in found.diagnoses[1:] if each.seen or found.decide]  # beside a sure one, no mere neighbours
    parts += [_candidate(number, each) for number, each in enumerate(others, 2)]
    first, more = found.diagnoses[0], steps.explain(found.diagnoses[0].id)
    if found.where:
        parts.append(f"your code: {found.where}")
    if found.decide:
        parts.append(f"to decide: {found.decide}")
    if first.next or first.target:
        parts.append(f"more: {more}")
    return "\n".join([*parts, f"next: {_after(first, steps)}"])


def _after(each: Diagnosis, steps: Steps) -> str:
    """The one command that goes on from a diagnosis."""
    return steps.check(each.target) if each.target else each.next or steps.explain(each.id)


def _first(each: Diagnosis) -> str:
    lines = [f"1. {each.cause} ({each.confidence} confidence)  {'  '.join(each.see)}", f"   {each.what}"]
    lines += [f"   seen: {place}" for place in each.seen]
    lines += [f"   fix: {each.here}", f"   in general: {each.fix}"] if each.here else [f"   fix: {each.fix}"]
    return "\n".join(lines)


def _candidate(number: int, each: Diagnosis) -> str:
    seen = f"; {each.seen[0]}" if each.seen else ""
    return f"{number}. {each.cause} ({each.confidence} confidence{seen})\n   fix: {each.here or _opening(each.fix)}"


def _opening(text: str) -> str:
    """The first sentences of a fix, about two lines of them."""
    if len(text) <= 240:
        return text
    end = max(text.rfind(mark, 60, 240) for mark in (". ", "; "))
    return f"{text[: end if end > 0 else 239]} …"


def verdict_json(found: Verdict, steps: Steps) -> str:
    """The same as one line of JSON; `diagnoses` is empty where the log shows no CUDA-graph problem."""
    data: dict[str, Any] = {
        "diagnoses": [
            {
                "id": each.id,
                "cause": each.cause,
                "why": why(each),
                "fix": f"{each.here} {each.fix}".strip(),
                "confidence": each.confidence,
                "see": list(each.see),
                "next": _after(each, steps),
            }
            for each in found.diagnoses
        ]
    }
    if not found.diagnoses:
        data["note"] = NOT_OURS
    data.update({key: value for key, value in (("where", found.where), ("decide", found.decide)) if value})
    return as_json(data)


def why(each: Diagnosis) -> str:
    """What the cause is, and the places of the log that speak for it, quoted as data."""
    return f"{each.what} Seen in the log: {'; '.join(each.seen)}" if each.seen else f"{each.what} (by the words of the log)"
