"""Read the entries and causes of `references/` into the table that logs are compared with, kept as JSON in the cache folder.

An *entry* (a section of `references/errors-*.md`) is what a user sees: its `errors:` are phrases of a log, most specific first,
or a number and an enum name to look it up by; under **Causes** it lists what may lie behind it, likeliest first. A *cause* (a
section of `references/causes-*.md`) is why it happens; its `tells:` are phrases that speak for it or, negative, against it.

Phrases are plain text without case: `…` stands for anything within `REACH` characters and ` & ` for a second phrase anywhere
in the log. `~` before an error marks a message that programs without any graph raise too, `^` one that only echoes an earlier
error. Nothing here is a regular expression, so no log can make a look-up slow.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.corpus import cache, files, load, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from cudagraph_skill.corpus.section import Section

FORMAT = 11  # raise it when the table's form changes: older ones are then made again
_PRIOR = 300.0  # words of all descriptions that each cause is taken to have said besides its own (Dirichlet smoothing)
_CHANCE = 0.5  # of the words of a log, the share that would stand there whatever the cause is
REACH = 300  # characters that `…` may stand for: a long path in a message, not the next message

_FIELD = re.compile(r"^- \*\*(Seen as|Raised by|Causes|Tell it by|Fix|Check|See|Proof|Next)\*\*:?", re.MULTILINE)
_CAUSE = re.compile(r"^\s+\d+\. \[([\w-]+)\]\([^)]*\):?\s*", re.MULTILINE)
_PROGRAM = re.compile(r"`tests/errors/(\w+)\.py`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)\s]*\)")
_FENCE = re.compile(r"^```.*?^```[^\S\n]*$", re.MULTILINE | re.DOTALL)
_RUNS = re.compile(
    r"(?:[A-Z][A-Z0-9_]*=\S* )*(?:python|grep|timeout|nsys|ncu|compute-sanitizer|nvidia-smi|dmesg|py-spy|pip|ps|env)\b"
)
_READS = "`skill check FILE:FUNCTION`"  # in a Check: the static check finds this cause in the source
_CONFIG = re.compile(r"`skill config FILE --for ([\w-]+==VERSION)`")  # in a Next: the error is one of the settings
_ENUM = re.compile(r"\d{1,4}|cuda\w+|CUDA_ERROR_\w+")


class Phrase(NamedTuple):
    """A phrase of a log. `kind` is "~" (also seen without graphs), "^" (an echo) or ""; each of `all` is parts in order."""

    kind: str
    all: tuple[tuple[str, ...], ...]


class Possible(NamedTuple):
    """A cause as one entry lists it: what happened in this case, with what tells it, and what to do."""

    slug: str
    text: str
    fix: str


class Entry(NamedTuple):
    """What a user sees. `codes` are its number and enum names, `next` is the command that shows more.

    `release` (`PACKAGE==VERSION`) stands where `skill config` finds the error in the user's settings, else "".
    `programs` are the names of the programs that raise it, as ids: its own, and those of ids that were merged into it.
    """

    id: str
    path: str
    line: int
    codes: tuple[str, ...]
    phrases: tuple[Phrase, ...]
    causes: tuple[Possible, ...]
    next: str
    release: str
    programs: tuple[str, ...] = ()


class Cause(NamedTuple):
    """Why something goes wrong: `tells` are points (their unit is explained in `diagnosis`) with a phrase.

    `words` are those in which people describe it, each with what it says for this cause (the logarithm of how much oftener it
    stands there than in the descriptions of all causes); `rest` is that for a word that never stands there. `in_source` is
    whether the static check finds it in the user's source.
    """

    slug: str
    path: str
    line: int
    what: str
    tell: str
    fix: str
    check: str
    tells: tuple[tuple[int, Phrase], ...]
    words: dict[str, float]
    rest: float
    in_source: bool


class Table(NamedTuple):
    """The error index; `known` are the words that any cause is described in."""

    entries: tuple[Entry, ...]
    causes: dict[str, Cause]
    known: frozenset[str]


def table(sections: Iterable[Section]) -> Table:
    """Return the error index of these sections."""
    chosen = list(sections)
    described = {section.headings[-1]: _described(section) for section in chosen if load.is_cause(section)}
    entries = []
    for section in filter(load.is_entry, chosen):
        entries.append(_entry(section))
        asked = Counter(terms.words(" ".join(section.asks)))
        for rank, slug in enumerate(dict.fromkeys(possible.slug for possible in entries[-1].causes)):
            words = described.setdefault(slug, {})
            for word, count in asked.items():  # who asks so may mean any of them, the likeliest most
                words[word] = words.get(word, 0.0) + count / (1 + rank)
    spoken = {word: sum(counts.get(word, 0.0) for counts in described.values()) for word in set().union(*described.values())}
    causes = {
        section.headings[-1]: _cause(section, described[section.headings[-1]], spoken)
        for section in filter(load.is_cause, chosen)
    }
    return Table(tuple(entries), causes, frozenset(spoken))


def _described(section: Section) -> dict[str, float]:
    """Return how often each word occurs in a cause's question forms, meaning and marks."""
    fields = _fields(section.text)
    text = " ".join((section.headings[-1], *section.asks, fields[""], fields.get("Tell it by", "")))
    return {word: float(count) for word, count in Counter(terms.words(text)).items()}


def open_table(root: Path, say: Callable[[str], None] = lambda _: None) -> Table:
    """Return the error index of the skill in `root`, from the cache folder where it is kept."""
    docs = [doc for doc in files.documents(root) if doc.shown.startswith(("references/errors-", "references/causes-"))]
    try:
        path = cache.folder() / f"errors-{FORMAT}-{files.digest(docs)}.json"
        return _kept(path) or _made(path, docs, say)
    except OSError:  # where nothing can be kept, each call makes it: half a second
        return table(load.sections(docs, say))


def _made(path: Path, docs: list[files.Document], say: Callable[[str], None]) -> Table:
    from cudagraph_skill.corpus import building  # noqa: PLC0415 - a kept table needs nothing of it

    with building.lock(path.parent, say):
        if kept := _kept(path):
            return kept
        made = table(load.sections(docs, say))
        with contextlib.suppress(OSError):
            building.keep(path, to_json(made).encode())
        return made


def parse_phrase(text: str) -> Phrase:
    """Return a phrase as it is written in a reference."""
    kind = text[:1] if text[:1] in ("~", "^") else ""
    both = text[len(kind) :].split(" & ")
    return Phrase(kind, tuple(tuple(" ".join(part.lower().split()) for part in phrase.split("…")) for phrase in both))


def _entry(section: Section) -> Entry:
    fields = _fields(section.text)
    codes = tuple(text for text in section.errors if _ENUM.fullmatch(text))
    phrases = [parse_phrase(text) for text in section.errors if not text.isdigit()]
    settings = _CONFIG.search(fields.get("Next", ""))
    return Entry(
        id=section.headings[-1],
        path=section.path,
        line=section.first,
        codes=codes,
        phrases=tuple(phrases),
        causes=tuple(_possible(fields.get("Causes", ""))),
        next=_command(fields.get("Next", "")),
        release=settings[1] if settings else "",
        programs=tuple(name.replace("_", "-") for name in _PROGRAM.findall(fields.get("Proof", ""))),
    )


def _possible(text: str) -> Iterable[Possible]:
    parts = _CAUSE.split(text)
    for slug, description in zip(parts[1::2], parts[2::2], strict=True):
        what, _, fix = description.partition("**Fix**")
        yield Possible(slug, _plain(what), _plain(fix.lstrip(": ")))


def _cause(section: Section, described: dict[str, float], spoken: dict[str, float]) -> Cause:
    fields = _fields(section.text)
    share = _PRIOR / sum(spoken.values())  # of a word's count everywhere: what every cause is taken to have said
    size = 1 + sum(described.values()) / _PRIOR
    check, in_source, other = fields.get("Check", "").partition(_READS)
    return Cause(
        slug=section.headings[-1],
        path=section.path,
        line=section.first,
        what=_plain(fields[""]),
        tell=_plain(fields.get("Tell it by", "")),
        fix=_plain(fields.get("Fix", "")),
        check=_command(other if in_source else check),
        tells=tuple((int(points), parse_phrase(text)) for points, _, text in (tell.partition(" ") for tell in section.tells)),
        words={word: round(_says((1 + count / (share * spoken[word])) / size), 3) for word, count in described.items()},
        rest=round(_says(1 / size), 3),
        in_source=bool(in_source),
    )


def _says(oftener: float) -> float:
    """Return what a word says for a cause that is `oftener` times as fond of it: any word may also be there by chance."""
    return log(_CHANCE + (1 - _CHANCE) * oftener)


def _fields(text: str) -> dict[str, str]:
    """Return the bullets of a section by their bold name, what stands before the first under "". Fences are left out."""
    parts = _FIELD.split(_FENCE.sub("", text))
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def _command(markdown: str) -> str:
    """Return the first code span of a bullet if a shell can run it; the whole bullet where it says to run FILE again."""
    span = re.search(r"(`+)(.+?)\1", markdown)
    command = span[2].strip() if span else ""
    if command == "python FILE":
        return _plain(markdown)
    return command if _RUNS.match(command) else ""


def _plain(markdown: str) -> str:
    """Return Markdown as one line of text: links by their words, no emphasis; code keeps its backticks."""
    text = _LINK.sub(r"\1", markdown).replace("**", "")
    return " ".join(re.sub(r"(?<!\w)\*([^*`\n]+)\*(?!\w)", r"\1", text).split()).strip(" ·")


def _kept(path: Path) -> Table | None:
    """Return the table in a file; None where there is none, or a damaged one."""
    data = cache.read(path)
    if data is None:
        return None
    try:
        return from_json(data.decode())
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def to_json(made: Table) -> str:
    """Return a table as one line of JSON."""
    return json.dumps([made.entries, made.causes, sorted(made.known)])


def from_json(text: str) -> Table:
    """Return the table that `to_json` wrote.

    Raises:
        ValueError, TypeError, KeyError: the text is something else.
    """
    entries, causes, known = json.loads(text)
    return Table(tuple(map(_entry_from, entries)), {slug: _cause_from(row) for slug, row in causes.items()}, frozenset(known))


def _entry_from(row: list[Any]) -> Entry:
    entry = Entry(*row)
    return entry._replace(
        codes=tuple(entry.codes),
        phrases=tuple(map(_phrase_from, entry.phrases)),
        causes=tuple(Possible(*possible) for possible in entry.causes),
        programs=tuple(entry.programs),
    )


def _cause_from(row: list[Any]) -> Cause:
    cause = Cause(*row)
    return cause._replace(tells=tuple((int(points), _phrase_from(phrase)) for points, phrase in cause.tells))


def _phrase_from(row: Iterable[Any]) -> Phrase:
    kind, parts = row
    return Phrase(kind, tuple(map(tuple, parts)))
