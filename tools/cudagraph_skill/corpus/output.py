"""Format search results and sections as text and JSON. Text of a user's own Markdown cannot steer the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.text import as_json, printable

if TYPE_CHECKING:
    from cudagraph_skill.corpus.section import Answer, Section
    from cudagraph_skill.text import Steps

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def where(section: Section, colour: bool = False) -> str:
    """Return `path:line: heading > heading`, the form that editors, pipes and assistants can follow."""
    place, names = printable(f"{section.path}:{section.first}:"), _shown(section.trail)
    return f"{_DIM}{place}{_PLAIN} {_BOLD}{names}{_PLAIN}" if colour else f"{place} {names}"


def answer(result: Answer, page: int, steps: Steps, colour: bool = False) -> str:
    """Return a search result for reading: each passage below the line that says where it is, the next command last."""
    parts = [f"{where(hit.section, colour)}\n{_shown(hit.passage)}" for hit in result.hits]
    return "\n\n".join([*language(result), *_corrections(result), *parts, f"next: {next_step(result, page, steps)}"])


def language(result: Answer) -> list[str]:
    """Return a sentence about a question in another language: what of it was searched for."""
    if result.english is None:
        return []
    used = (
        f'searched for "{_short(result.english)}"' if result.english else "the question has too few English words to search for"
    )
    return [f"the references are in English: {used}"]


def _corrections(result: Answer) -> list[str]:
    """Return what was searched for instead of what was typed, where that differs."""
    used = ", ".join(f'"{used}" instead of "{typed}"' for typed, used in sorted(result.corrected.items()))
    return [f"searched for {used}"] if used else []


def next_step(result: Answer, page: int, steps: Steps) -> str:
    """Return what shows the rest of the first shortened passage, or the next page, or the file of the best."""
    cut = next((hit.section for hit in result.hits if not hit.whole), None)
    if cut:
        return steps.read(cut.ref)
    return steps.turn(page + 1) if result.more else steps.read(result.hits[0].section.path)


def nothing_found(result: Answer, question: str, steps: Steps) -> str:
    """Return what to say when no section answers: the nearest headings, so that the reader can ask again."""
    subject = "this skill knows CUDA Graphs for PyTorch and nothing else"
    why = " ".join(language(result)) or subject
    lines = [f'nothing found for "{_short(question)}": {why}', *_corrections(result)]
    if result.nearest:
        lines += ["nearest headings:", *(f"  {where(section)}" for section in result.nearest)]
    again = "ask again" if result.english is None else "ask again in English, or"
    return "\n".join([*lines, f"next: {again} with the API name, the flag or the error text, or {steps.read('SKILL.md')}"])


def answer_json(result: Answer, page: int, steps: Steps) -> str:
    """Return a search result as one line of JSON, with `results` empty and `nearest` filled when nothing answers."""
    data: dict[str, Any] = {
        "results": [
            {
                "path": hit.section.path,
                "heading": hit.section.trail,
                "lines": [hit.section.first, hit.section.last],
                "text": hit.passage,
                "score": hit.score,
            }
            for hit in result.hits
        ]
    }
    if result.corrected:
        data["corrected"] = result.corrected
    if result.english is not None:
        data["note"] = language(result)[0]
    if result.hits:
        data["next"] = next_step(result, page, steps)
    else:
        data["nearest"] = [where(section) for section in result.nearest]
    return as_json(data)


def section(shown: Section, colour: bool = False) -> str:
    """Return one section for reading."""
    return f"{where(shown, colour)}\n{_shown(shown.text)}"


def section_json(shown: Section) -> str:
    """Return one section as one line of JSON."""
    data = {
        "path": shown.path,
        "heading": shown.trail,
        "lines": [shown.first, shown.last],
        "text": shown.text,
        "sources": shown.sources,
    }
    return as_json(data)


def contents(sections: list[Section], steps: Steps) -> str:
    """Return the headings of one file, as many lines, with the command that reads one of them."""
    indented = [("  " * (section.level - 1) + section.headings[-1], section) for section in sections]
    lines = [printable(f"{section.path}:{section.first}: {heading}") for heading, section in indented]
    return "\n".join([*lines, f"next: {steps.read(sections[min(1, len(sections) - 1)].ref)}"])


def contents_json(sections: list[Section]) -> str:
    """Return the headings of one file as one line of JSON."""
    rows = [{"ref": section.ref, "heading": section.headings[-1], "line": section.first} for section in sections]
    return as_json({"sections": rows})


def _shown(text: str) -> str:
    """Return `text` with its lines, tabs and wide spaces, and nothing else in it that a terminal obeys."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(char if char in "\n\t" or (char.isspace() and char > "\x9f") else printable(char) for char in text)


def _short(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= 120 else line[:119] + "…"
