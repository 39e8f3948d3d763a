"""Markdown files to sections: one heading, the text below it, and what is indexed with it.

What does not show in a rendered page is in two places. The comment right under a heading holds the messages of an error that
lead there, separated by ` | `; question forms, clues and sources are in the reference's own file of `questions/`:

    <!-- errors: verbatim text of an error that leads here | its number | its enum name -->

A user's Markdown has no such file; there the comment may also hold `asks:`, `tells:` and `source:`, each on its own line.
`entries` says what `errors` and `tells` mean to the look-up of a log.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.corpus import questions
from cudagraph_skill.corpus.section import Section
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FIELD = re.compile(r"^\s*(asks|errors|tells|source):", re.MULTILINE)
_MAX_FILE_BYTES = 8 * 1024 * 1024  # a Markdown file larger than this is a data dump; it would dominate the index


class Document(NamedTuple):
    """A Markdown file before it is cut: `shown` is the path that answers print, `asked` its file of `questions/`."""

    shown: str
    data: bytes
    asked: bytes = b""


def documents(root: Path, extra: Path | None = None) -> list[Document]:
    """SKILL.md and references/*.md of the skill, then every Markdown file under `extra`, in a stable order.

    Raises:
        SkillError: `extra` is no folder that can be read, or holds no Markdown.
    """
    own = [root / "SKILL.md", *sorted((root / "references").glob("*.md"))]
    found = [Document(path.relative_to(root).as_posix(), path.read_bytes(), _asked(root, path)) for path in own]
    if extra is not None:
        found += _users_documents(extra)
    return found


def _asked(root: Path, reference: Path) -> bytes:
    path = questions.path_of(root, reference)
    return path.read_bytes() if path.is_file() else b""


def _users_documents(folder: Path) -> list[Document]:
    if not folder.is_dir():
        raise SkillError(f"--corpus {folder}: there is no such folder; name one that holds Markdown files")
    found = []
    for path in sorted((*folder.rglob("*.md"), *folder.rglob("*.markdown"))):
        if any(part.startswith(".") or part == "node_modules" for part in path.relative_to(folder).parts):
            continue
        try:
            if path.is_file() and 0 < path.stat().st_size <= _MAX_FILE_BYTES:  # a size of 0 may be a device in disguise
                found.append(Document(str(path), path.read_bytes()))
        except OSError as error:
            raise SkillError(f"--corpus {folder}: cannot read {path} ({error.strerror}); make it readable") from None
    if not found:
        raise SkillError(f"--corpus {folder}: no Markdown file (*.md) in it that can be read; name another folder")
    return found


def digest(docs: list[Document]) -> str:
    """A name for exactly this content, 20 hexadecimal digits."""
    state = hashlib.blake2b(digest_size=10)
    for doc in docs:
        state.update(f"{doc.shown}\0{len(doc.data)}\0{len(doc.asked)}\0".encode(errors="surrogateescape"))
        state.update(doc.data)
        state.update(doc.asked)
    return state.hexdigest()


def sections(docs: list[Document], say: Callable[[str], None] = lambda _: None) -> list[Section]:
    """All sections of all documents; `say` gets one sentence for each file that could only be read in part."""
    found: list[Section] = []
    for doc in docs:
        if b"\0" in doc.data:
            say(f"{doc.shown}: holds NUL bytes, so it is no Markdown text; it was left out")
            continue
        try:
            text = doc.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            say(f"{doc.shown}: byte {error.start} is not UTF-8; such bytes are shown as \N{REPLACEMENT CHARACTER}")
            text = doc.data.decode("utf-8", "replace")
        title, start = _front_matter(doc.shown, text, say)
        asked = questions.parse(doc.asked.decode(), doc.shown)
        found += (_with_questions(section, asked.get(section.anchor, {})) for section in _cut(doc.shown, text, title, start))
    return found


def _with_questions(section: Section, forms: questions.Forms) -> Section:
    return section._replace(
        asks=(*section.asks, *forms.get("ask", ())),
        tells=(*section.tells, *forms.get("tell", ())),
        sources=(*section.sources, *forms.get("source", ())),
    )


def _front_matter(shown: str, text: str, say: Callable[[str], None]) -> tuple[str, int]:
    """The title that YAML front matter gives, and the line after it."""
    lines = _lines(text)
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    if not end or lines[0].rstrip() != "---":
        return "", 0
    import yaml

    try:
        fields = yaml.safe_load("\n".join(lines[1:end]))
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}" if mark else "the top"
        say(f"{shown}: the front matter is not valid YAML at {where}; the text below it was read all the same")
        return "", end + 1
    title = fields.get("title") or fields.get("name") if isinstance(fields, dict) else None
    return str(title) if isinstance(title, str | int | float) else "", end + 1


def _cut(shown: str, text: str, title: str, start: int) -> Iterator[Section]:
    """Sections of one file. Text above the first heading belongs to `title`, or to the file's name."""
    lines = _lines(text)
    heads = [(0, title or Path(shown).stem, start), *_headings(lines, start)]
    path: list[tuple[int, str]] = []
    slugs: set[str] = set()
    for number, (level, heading, line) in enumerate(heads):
        end = heads[number + 1][2] if number + 1 < len(heads) else len(lines)
        path = [step for step in path if step[0] < level]
        body = "\n".join(lines[line + (level > 0) : end])
        if level == 0 and not body.strip():
            continue
        path.append((level, heading))
        comment, body = _comment(body)
        headings = tuple(name for depth, name in path if depth > 0 or level == 0)
        yield Section(
            path=shown,
            anchor=_unique(slug(heading), slugs),
            headings=headings,
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
    """Lines as editors and grep count them; str.splitlines() also ends a line at form feeds and U+2028."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _headings(lines: list[str], start: int) -> Iterator[tuple[int, str, int]]:
    """Level, text and 0-based line of each heading at the top level of a file (a `#` inside a fence is none)."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    tokens = parser.parse("\n".join(["" for _ in lines[:start]] + lines[start:]))
    for position, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            yield int(token.tag[1]), " ".join(tokens[position + 1].content.split()), token.map[0]


def _comment(body: str) -> tuple[dict[str, tuple[str, ...]], str]:
    """The fields of the index comment that opens `body`, and `body` without it."""
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
    """Whether a section is an error entry: its heading is its id."""
    return section.path.startswith("references/errors-") and section.level == 3


def is_cause(section: Section) -> bool:
    """Whether a section is a cause: its heading is its slug."""
    return section.path.startswith("references/causes-") and section.level == 3


def is_hazard(section: Section) -> bool:
    """Whether a section is a hazard of the static check: its heading is an id and a name, `CG201 device-value-read`."""
    return section.path == "references/hazards.md" and section.level == 3


def names(section: Section) -> tuple[str, ...]:
    """What one may call an entry, a cause or a hazard, the shortest first."""
    heading = section.headings[-1]
    return (*heading.split(), slug(heading)) if is_hazard(section) else (heading,)


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading, for example `torchcudagraph-capture-a-block`."""
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
