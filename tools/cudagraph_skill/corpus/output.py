"""Format search results and sections as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.text import as_json

if TYPE_CHECKING:
    from cudagraph_skill.corpus.section import Answer, Section
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
    return as_json(data)


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
    return as_json(data)


def contents(found: list[Section], steps: Steps) -> str:
    """The headings of one file, as many lines, with the command that reads one of them."""
    lines = [f"{each.path}:{each.first}: {'  ' * (each.level - 1)}{each.headings[-1]}" for each in found]
    return "\n".join([*lines, f"next: {steps.read(found[min(1, len(found) - 1)].ref)}"])


def contents_json(found: list[Section]) -> str:
    """The headings of one file as one line of JSON."""
    return as_json({"sections": [{"ref": each.ref, "heading": each.headings[-1], "line": each.first} for each in found]})


def _short(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= 120 else line[:119] + "…"
