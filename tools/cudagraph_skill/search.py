"""Question to the smallest sufficient passages: the only module that knows Whoosh.

Two stages. Whoosh holds one weighted field for each section (heading, question forms and error texts count more than body) and
gives BM25 candidates; these are ordered again by how much of the question they cover, and by their best question form. One
field, because Whoosh saturates each field by itself, which lets a word in a heading outweigh everything else. The last
stage decides whether there is an answer at all.

The index is built once for each corpus content, in the user's cache folder, and renamed into place when it is complete; so a
reader never sees half of one, and processes that build at the same time do not disturb each other.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from whoosh import fields, query, scoring
from whoosh.filedb.filestore import FileStorage, RamStorage

from cudagraph_skill import corpus, passages, terms
from cudagraph_skill.model import Answer, Hit, Section, SkillError
from cudagraph_skill.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT = 1  # raise it when what the index holds changes: older indexes are then built again
MAX_QUERY_CHARS = 20_000
_CANDIDATES = 40
_MAX_QUERY_TERMS = 48  # a pasted traceback: beyond its rarest terms, the rest only costs time
_ABANDONED_SECONDS = 3600
_KEPT_INDEXES = 8


class _Candidate(NamedTuple):
    section: Section
    score: float
    coverage: float  # share of the question's weight that the section has, 0 to 1
    asked: float  # likeness to its nearest question form, 0 to 1
    exact: bool  # the question is a heading, an identifier in it, or an error text of the section


class Index:
    """An open index over one corpus. Threads may share it; it never writes."""

    def __init__(self, whoosh_index: Any) -> None:
        self._searcher = whoosh_index.searcher(weighting=scoring.BM25F(B=0.6, K1=1.6))
        self._reader = self._searcher.reader()
        self._count = max(1, self._reader.doc_count())
        with whoosh_index.storage.open_file("vocabulary") as file:
            self._vocabulary = frozenset(file.read().decode().split("\n"))
        self._idf: dict[str, float] = {}

    def search(self, question: str, limit: int = 3, page: int = 1, max_tokens: int = 800) -> Answer:
        """Up to `limit` sections that answer `question`, their text cut to about `max_tokens` in all.

        A token is counted as four characters. `page` 2 continues where page 1 ended.

        Raises:
            SkillError: the question is empty, binary or longer than MAX_QUERY_CHARS.
        """
        question = _checked(question)
        asked, corrected = self._corrected(terms.words(question))
        ranked = self._ranked(question, asked)
        if not ranked or not self._answers(ranked, asked):
            return Answer([], [each.section for each in ranked[:3]], corrected, more=False)
        start = (page - 1) * limit
        shown = ranked[start : start + limit]
        cut = passages.fit([each.section for each in shown], frozenset(asked), max_tokens * 4)
        hits = [Hit(each.section, round(each.score, 2), text, whole) for each, (text, whole) in zip(shown, cut, strict=True)]
        return Answer(hits, [], corrected, more=len(ranked) > start + limit)

    def sections(self) -> list[Section]:
        """Every section, in the order of the corpus."""
        return [_section(fields["record"]) for fields in self._reader.all_stored_fields()]

    def _corrected(self, asked: list[str]) -> tuple[list[str], dict[str, str]]:
        """The question's words with unknown ones replaced by a word one edit away, where there is one."""
        fixes = {}
        for word in dict.fromkeys(asked):
            if word not in self._vocabulary and len(word) > 4 and word.isalpha():
                fix = terms.spelled(word, self._vocabulary)
                if fix:
                    fixes[word] = fix
        return [fixes.get(word, word) for word in asked], fixes

    def _weight(self, term: str) -> float:
        """Inverse document frequency; an unknown word weighs as much as one that a single section has."""
        if term not in self._idf:
            found = self._reader.doc_frequency("terms", term) if term in self._vocabulary else 0
            self._idf[term] = log(1 + self._count / (0.5 + max(found, 1)))
        return self._idf[term]

    def _ranked(self, question: str, asked: list[str]) -> list[_Candidate]:
        key = _key(question)
        wanted = dict.fromkeys(asked, 1.0)
        for term in terms.terms(question):
            if term not in wanted:
                wanted[term] = 1.5 if term.startswith("=") else 0.5
        others = terms.related(asked)
        for word in others:
            wanted.setdefault(word, 0.3)
        known = [term for term in wanted if term in self._vocabulary]
        known.sort(key=lambda term: -self._weight(term) * wanted[term])
        parts = [query.Term("terms", term, boost=wanted[term]) for term in known[:_MAX_QUERY_TERMS]]
        exact = f"@{key}" in self._vocabulary
        if exact:
            parts.append(query.Term("terms", f"@{key}", boost=20.0))
        if not parts:
            return []
        results = self._searcher.search(query.Or(parts), limit=_CANDIDATES)
        found = [self._judged(hit.fields()["record"], hit.score, asked, others, key) for hit in results]
        return sorted(found, key=lambda each: (-each.exact, -each.score))

    def _judged(self, record: tuple[Any, ...], base: float, asked: list[str], others: dict[str, str], key: str) -> _Candidate:
        """A candidate with its final score, from Whoosh's and from how it covers the question's words."""
        title, asks, keys, held = record[10], record[11], record[12], frozenset(record[13].split())
        distinct = frozenset(asked)
        total = sum(map(self._weight, distinct)) or 1.0
        meant = {word for other, word in others.items() if other in held} - held
        coverage = sum(self._weight(word) * (1.0 if word in held else 0.6) for word in distinct & (held | meant)) / total
        titled = sum(map(self._weight, distinct.intersection(title))) / total
        alike = max((self._likeness(distinct, form, total) for form in asks), default=0.0)
        score = base * (0.4 + coverage) * (1 + 0.5 * titled + 1.2 * alike)
        return _Candidate(_section(record), score, coverage, alike, key in keys)

    def _likeness(self, distinct: frozenset[str], form: tuple[str, ...], total: float) -> float:
        """How alike the question and one authored question form are, 0 to 1 (a weighted Jaccard index)."""
        shared = sum(map(self._weight, distinct.intersection(form)))
        rest = sum(map(self._weight, set(form) - distinct))
        return shared / (total + 0.5 * rest)

    def _answers(self, ranked: list[_Candidate], asked: list[str]) -> bool:
        """Whether the best candidate is an answer, or only the least bad section for a question outside the field."""
        best = ranked[0]
        if best.exact:
            return True
        return bool(asked) and (best.coverage >= 0.55 or best.asked >= 0.5)


def _checked(question: str) -> str:
    text = question.strip()
    if not text:
        raise SkillError('the question is empty: type what you want to know, for example "capture fails in backward"')
    if len(text) > MAX_QUERY_CHARS:
        raise SkillError(
            f"the question has {len(text):,} characters, at most {MAX_QUERY_CHARS:,} are searched: "
            "give the error line or the question alone"
        )
    odd = sum(not (char.isprintable() or char.isspace()) for char in text)
    if odd * 10 > len(text):
        raise SkillError("the question is binary data, not text: give the error line or the question alone")
    return text


def _key(text: str) -> str:
    """The form in which identifiers, headings and error texts are compared as a whole."""
    return " ".join(terms.plain(text).lower().replace("`", "").split()).strip(" .?!:()\"'")


def _keys(section: Section) -> tuple[str, ...]:
    heading = section.headings[-1]
    spans = re.findall(r"`([^`]+)`", heading)
    return tuple(dict.fromkeys(_key(text) for text in (heading, section.anchor, *spans, *section.errors)))


def _section(record: tuple[Any, ...]) -> Section:
    return Section(*record[: len(Section._fields)])


def open_index(root: Path, extra: Path | None = None) -> tuple[Index, list[str]]:
    """The index over the skill's own Markdown and that under `extra`, built first if need be, and notes for the user.

    Raises:
        SkillError: `extra` is no readable folder with Markdown.
    """
    docs = corpus.documents(root, extra)
    name = f"{FORMAT}-{corpus.digest(docs)}"
    try:
        folder = cache_dir() / name
        if _is_whole(folder):
            return Index(FileStorage(str(folder)).open_index()), []
        return _built(docs, folder)
    except OSError as error:
        found, notes = corpus.sections(docs)
        reason = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        notes.append(
            f"the search index cannot be kept ({reason}), so it is built for each call; "
            "set CUDAGRAPH_SKILL_CACHE to a folder that you can write to"
        )
        return Index(_write(RamStorage(), found)), notes


def _is_whole(folder: Path) -> bool:
    """Whether an index stands there, is ours (it is unpickled: never open a stranger's), and no file of it was damaged."""
    try:
        listed = dict(line.rsplit(" ", 1) for line in (folder / "sizes").read_text().splitlines())
        return folder.stat().st_uid == os.getuid() and all((folder / name).stat().st_size == int(listed[name]) for name in listed)
    except (OSError, ValueError):
        return False


def _built(docs: list[corpus.Document], folder: Path) -> tuple[Index, list[str]]:
    """Build in a folder of our own, then rename; whoever was first wins, and all indexes of a name are equal."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    found, notes = corpus.sections(docs)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    try:
        _write(FileStorage(str(building)), found).close()
        sizes = "".join(f"{path.name} {path.stat().st_size}\n" for path in sorted(building.iterdir()))
        (building / "sizes").write_text(sizes)
        if not _is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # another process was first
                building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    _sweep(folder)
    return Index(FileStorage(str(folder)).open_index()), notes


def _sweep(newest: Path) -> None:
    """Remove what killed processes left behind, and all but the last few indexes."""
    kept: list[tuple[float, Path]] = []
    for path in newest.parent.iterdir():
        with contextlib.suppress(OSError):
            age = path.stat().st_mtime
            if path.name.startswith(".building-"):
                if time.time() - age > _ABANDONED_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
            elif re.fullmatch(r"\d+-[0-9a-f]{20}", path.name) and path != newest:
                kept.append((age, path))
    for _, path in sorted(kept, reverse=True)[_KEPT_INDEXES - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def _write(storage: Any, found: Iterable[Section]) -> Any:
    """A Whoosh index of `found` in `storage`. Weight is repetition: Whoosh then saturates the sum, not each field."""
    schema = fields.Schema(terms=fields.TEXT(phrase=False), record=fields.STORED())
    made = storage.create_index(schema)
    writer = made.writer()
    vocabulary: set[str] = set()
    for section in found:
        heading = terms.terms(section.headings[-1])
        above = terms.words(" ".join(section.headings[:-1]))
        asks = [terms.terms(form) for form in section.asks]
        errors = [term for text in section.errors for term in terms.terms(text)]
        body = terms.terms(section.text)
        keys = _keys(section)
        asking = [term for form in asks for term in form]
        every = heading * 3 + above + asking * 2 + errors * 2 + body
        forms = tuple(tuple(terms.words(form)) for form in section.asks)
        held = " ".join(sorted({term for term in every if term[0] not in "=@" and "+" not in term}))
        record = (*section, tuple(terms.words(section.headings[-1])), forms, keys, held)
        vocabulary.update(every, (f"@{key}" for key in keys))
        writer.add_document(terms=every + [f"@{key}" for key in keys], record=record)
    writer.commit()
    with storage.create_file("vocabulary") as file:
        file.write("\n".join(sorted(vocabulary)).encode())
    return made
