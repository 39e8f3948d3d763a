"""Results to text and JSON: with `findings` the only module that formats. Text is for people, JSON for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudagraph_skill.model import Answer, Diagnosis, Section, Verdict
    from cudagraph_skill.text import Steps


_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def where(section: Section, colour: bool = False) -> str:
    """`path:line: heading > heading`, the form that editors, pipes and assistants can follow."""
    place, names = f"{section.path}:{section.first}:", section.trail
    return f"{_DIM}{place}{_PLAIN} {_BOLD}{names}{_PLAIN}" if colour else f"{place} {names}"


def answer(found: Answer, page: int, steps: Steps, colour: bool = False) -> str:
    """A search result for reading: each passage under the line that says where it stands, the next command last."""
    parts = [f"{where(hit.section, colour)}\n{hit.passage}" for hit in found.hits]
    return "\n\n".join([*parts, f"next: {next_step(found, page, steps)}"])


def next_step(found: Answer, page: int, steps: Steps) -> str:
    """What shows the rest of the first shortened passage, or the next page, or the file of the best."""
    cut = next((hit.section for hit in found.hits if not hit.whole), None)
    if cut:
        return steps.read(cut.ref)
    return steps.turn(page + 1) if found.more else steps.read(found.hits[0].section.path)


def nothing_found(found: Answer, question: str, steps: Steps) -> str:
    """What to say when no section answers: the nearest headings, so that the reader can ask again."""
    lines = [f'nothing found for "{_short(question)}": this skill knows CUDA Graphs for PyTorch and nothing else']
    if found.nearest:
        lines += ["nearest headings:", *(f"  {where(section)}" for section in found.nearest)]
    return "\n".join([*lines, f"next: ask again with the API name, the flag or the error text, or {steps.read('SKILL.md')}"])


def answer_json(found: Answer, page: int, steps: Steps) -> str:
    """The same as one line of JSON, with `results` empty and `nearest` filled when nothing was found."""
    data: dict[str, Any] = {
        "results": [
            {
                "path": hit.section.path,
                "heading": hit.section.trail,
                "lines": [hit.section.first, hit.section.last],
                "text": hit.passage,
                "score": hit.score,
            }
            for hit in found.hits
        ]
    }
    if found.corrected:
        data["corrected"] = found.corrected
    if found.hits:
        data["next"] = next_step(found, page, steps)
    else:
        data["nearest"] = [where(section) for section in found.nearest]
    return _json(data)


def section(found: Section, colour: bool = False) -> str:
    """One section for reading."""
    return f"{where(found, colour)}\n{found.text}"


def section_json(found: Section) -> str:
    """One section as one line of JSON."""
    data = {
        "path": found.path,
        "heading": found.trail,
        "lines": [found.first, found.last],
        "text": found.text,
        "sources": found.sources,
    }
    return _json(data)


def contents(found: list[Section], steps: Steps) -> str:
    """The headings of one file, as many lines, with the command that reads one of them."""
    lines = [f"{each.path}:{each.first}: {'  ' * (each.level - 1)}{each.headings[-1]}" for each in found]
    return "\n".join([*lines, f"next: {steps.read(found[min(1, len(found) - 1)].ref)}"])


def contents_json(found: list[Section]) -> str:
    """The headings of one file as one line of JSON."""
    return _json({"sections": [{"ref": each.ref, "heading": each.headings[-1], "line": each.first} for each in found]})


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
    return _json(data)


def why(each: Diagnosis) -> str:
    """What the cause is, and the places of the log that speak for it, quoted as data."""
    return f"{each.what} Seen in the log: {'; '.join(each.seen)}" if each.seen else f"{each.what} (by the words of the log)"


def error_json(sentence: str) -> str:
    """A misuse or a lack, for callers that read JSON."""
    return _json({"error": sentence})


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)


def _short(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= 120 else line[:119] + "…"
