"""Load Markdown files as sections: one heading, the text below it, and what is indexed with it.

What a rendered page does not show is in two places. The comment right under a heading lists the messages of an error that lead
there, separated by ` | `; question forms, clues and sources are in the reference's own file of `questions/`:

    <!-- errors: verbatim text of an error that leads here | its number | its enum name -->

A user's Markdown has no such file; there the comment may also have `asks:`, `tells:` and `source:`, each on its own line.
`diagnosis.entries` explains what `errors` and `tells` mean to the look-up of a log.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.corpus import headings, questions
from cudagraph_skill.corpus.files import Document, digest, documents
from cudagraph_skill.corpus.section import Section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "Document",
    "digest",
    "documents",
    "is_cause",
    "is_constraint",
    "is_entry",
    "is_hazard",
    "is_library",
    "is_moved",
    "moved_to",
    "names",
    "sections",
    "slug",
]

_FIELD = re.compile(r"^\s*(asks|errors|tells|source):", re.MULTILINE)


def sections(docs: list[Document], say: Callable[[str], None] = lambda _: None) -> list[Section]:
    """Return all sections of all documents; `say` gets one sentence for each file that could only be read in part."""
    return [section for doc in docs for section in _sections_of(doc, say)]


def _sections_of(doc: Document, say: Callable[[str], None]) -> Iterator[Section]:
    if b"\0" in doc.data:
        say(f"{doc.shown}: holds NUL bytes, so it is no Markdown text; it was left out")
        return
    try:
        text = doc.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        say(f"{doc.shown}: byte {error.start} is not UTF-8; such bytes are shown as \N{REPLACEMENT CHARACTER}")
        text = doc.data.decode("utf-8", "replace")
    lines = _lines(text)
    title, start = _front_matter(doc, lines, say)
    forms = questions.parse(doc.asked.decode(), doc.shown)
    for section in _cut(doc, lines, title, start):
        yield _with_questions(section, forms.get(section.anchor, {}))


def _with_questions(section: Section, forms: questions.Forms) -> Section:
    return section._replace(
        asks=(*section.asks, *forms.get("ask", ())),
        tells=(*section.tells, *forms.get("tell", ())),
        sources=(*section.sources, *forms.get("source", ())),
    )


def _front_matter(doc: Document, lines: list[str], say: Callable[[str], None]) -> tuple[str, int]:
    """Return the title that YAML front matter gives, and the line after it."""
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    if not end or lines[0].rstrip() != "---":
        return "", 0
    if doc.ours:  # has no text above its first heading, so no use for a title
        return "", end + 1
    return _title(doc.shown, lines[1:end], say), end + 1


def _title(shown: str, lines: list[str], say: Callable[[str], None]) -> str:
    try:
        import yaml
    except ModuleNotFoundError:
        match = re.search(r"^(?:title|name): *([^\n\[{&*!|>]*)", "\n".join(lines), re.MULTILINE)
        return match[1].strip(" '\"") if match else ""
    try:
        fields = yaml.safe_load("\n".join(lines))
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}" if mark else "the top"
        say(f"{shown}: the front matter is not valid YAML at {where}; the text below it was read all the same")
        return ""
    title = fields.get("title") or fields.get("name") if isinstance(fields, dict) else None
    return str(title) if isinstance(title, str | int | float) else ""


def _headings(doc: Document, lines: list[str], start: int) -> list[headings.Heading]:
    try:
        return list((headings.by_line if doc.ours else headings.by_markdown_it)(lines, start))
    except ModuleNotFoundError:
        return list(headings.by_line(lines, start))


def _cut(doc: Document, lines: list[str], title: str, start: int) -> Iterator[Section]:
    """Yield the sections of one file. Text above the first heading belongs to `title`, or to the file's name."""
    heads = [headings.Heading(0, title or Path(doc.shown).stem, start), *_headings(doc, lines, start)]
    path: list[tuple[int, str]] = []
    slugs: set[str] = set()
    for number, (level, heading, line) in enumerate(heads):
        end = heads[number + 1][2] if number + 1 < len(heads) else len(lines)
        path = [above for above in path if above[0] < level]
        body = "\n".join(lines[line + (level > 0) : end])
        if level == 0 and not body.strip():
            continue
        path.append((level, heading))
        comment, body = _comment(body)
        yield Section(
            path=doc.shown,
            anchor=_unique(slug(heading), slugs),
            headings=tuple(name for depth, name in path if depth > 0 or level == 0),
            level=max(level, 1),
            first=line + 1,
            last=max(end, line + 1),
            text=body,
            asks=comment.get("asks", ()),
            errors=comment.get("errors", ()),
            sources=comment.get("source", ()),
            tells=comment.get("tells", ()),
        )


def _lines(text: str) -> list[str]:
    """Return lines as editors and grep count them; str.splitlines() also ends a line at form feeds and U+2028."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _comment(body: str) -> tuple[dict[str, tuple[str, ...]], str]:
    """Return the fields of the comment that opens `body`, and `body` without it."""
    rest = body.lstrip()
    if not rest.startswith("<!--") or "-->" not in rest:
        return {}, body.strip()
    inside, rest = rest[4:].split("-->", 1)
    parts = _FIELD.split(inside)
    fields = {
        name: tuple(" ".join(value.split()) for value in text.split(" | ") if value.strip())
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    return fields, rest.strip()


def is_entry(section: Section) -> bool:
    """Return whether a section is an error entry: its heading is its id."""
    return section.path.startswith("references/errors-") and section.level == 3 and not is_moved(section)


def is_moved(section: Section) -> bool:
    """Return whether a section is the old id of an entry, which says where the entry is now."""
    return section.path.startswith("references/errors-") and section.text.startswith("Moved to [")


def moved_to(section: Section) -> str:
    """Return the id that an old one was merged into."""
    return section.text.partition("[")[2].partition("]")[0]


def is_cause(section: Section) -> bool:
    """Return whether a section is a cause: its heading is its slug."""
    return section.path.startswith("references/causes-") and section.level == 3


def is_constraint(section: Section) -> bool:
    """Return whether a section is a constraint of Megatron's settings: its heading is its id."""
    return section.path == "references/constraints.md" and section.level == 3


def is_hazard(section: Section) -> bool:
    """Return whether a section is a hazard of the static check: its heading is an id and a name, `CG201 device-value-read`."""
    return section.path == "references/hazards.md" and section.level == 3


def is_library(section: Section) -> bool:
    """Return whether a section is about lines of a library: its heading is its id."""
    return section.path == "references/libraries.md" and section.level == 3


def names(section: Section) -> tuple[str, ...]:
    """Return what one may call an entry, a cause or a hazard, the shortest first."""
    heading = section.headings[-1]
    return (*heading.split(), slug(heading)) if is_hazard(section) else (heading,)


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading, for example `torchcudagraph-capture-a-block`."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.strip().replace(" ", "-")


def _unique(name: str, taken: set[str]) -> str:
    name = name or "section"
    anchor, number = name, 0
    while anchor in taken:
        number += 1
        anchor = f"{name}-{number}"
    taken.add(anchor)
    return anchor
