"""Question to the smallest sufficient passages: the only module that knows Whoosh.

Whoosh keeps one weighted field for each section, in which heading, question forms and error texts count more than body; what
it stores with a posting is the term's BM25 impact. One field, because Whoosh's own BM25F saturates each field by itself, which
lets a word in a heading outweigh everything else. The best sums are candidates, ordered again by how much of the question they
cover and by their nearest question form. A last stage decides whether there is an answer at all.

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
from collections import Counter
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from whoosh import analysis, fields
from whoosh.filedb.filestore import FileStorage, RamStorage

from cudagraph_skill import corpus, passages, terms
from cudagraph_skill.model import DEFAULT_TOKENS, Answer, Hit, Section, SkillError
from cudagraph_skill.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT = 1  # raise it when what the index holds changes: older indexes are then built again
MAX_QUERY_CHARS = 20_000
_CANDIDATES = 30
_MAX_QUERY_TERMS = 48  # a pasted traceback: beyond its rarest terms, the rest only costs time
_COMMON = 0.3  # a term that more than this share of the sections has
_WHOLE, _PAIR, _SYNONYM = 1.5, 0.3, 0.2  # what a whole identifier, two adjacent words and a synonym weigh beside a word
_COVERAGE, _TITLED, _ALIKE, _MEANT, _REST = 0.2, 0.8, 1.2, 0.6, 0.5  # of the second stage, see Index._judged
_K1, _B = 1.6, 0.6  # BM25: how fast repetition saturates, how much length counts against a section
_ABANDONED_SECONDS = 3600
_KEPT_INDEXES = 8


class _Record(NamedTuple):
    """A section as the index holds it: what it says, and the terms that rank it."""

    section: Section
    title: frozenset[str]
    asks: tuple[frozenset[str], ...]
    keys: tuple[str, ...]  # what it is called: heading, anchor, identifiers in the heading, error texts
    words: frozenset[str]


class _Candidate(NamedTuple):
    section: Section
    score: float
    coverage: float  # share of the question's weight that the section has, 0 to 1
    asked: float  # likeness to its nearest question form, 0 to 1
    exact: bool  # the question is one of the section's keys


class _Weighted:
    """A Whoosh analyzer for text that is analysed already: `term TAB weight` lines become tokens with that boost."""

    def __call__(self, value: str, **_: object) -> Iterator[analysis.Token]:
        token = analysis.Token(boosts=True)
        for line in value.split("\n"):
            token.text, weight = line.split("\t")
            token.boost = float(weight)
            yield token


class Index:
    """An open index over one corpus. Threads may share it; it never writes."""

    def __init__(self, whoosh_index: Any) -> None:
        self._reader = whoosh_index.reader()
        self._count = max(1, self._reader.doc_count())
        with whoosh_index.storage.open_file("vocabulary") as file:
            self._vocabulary = frozenset(file.read().decode().split("\n"))
        self._idf: dict[str, float] = {}
        self._records: dict[int, _Record] = {}
        self._postings: dict[str, list[tuple[int, float]]] = {}

    def search(self, question: str, limit: int = 3, page: int = 1, max_tokens: int = DEFAULT_TOKENS) -> Answer:
        """Up to `limit` sections that answer `question`, their text cut to about `max_tokens` in all.

        A token is counted as four characters. `page` 2 continues where page 1 ended.

        Raises:
            SkillError: the question is empty, binary or longer than MAX_QUERY_CHARS.
        """
        question = _essence(_checked(question))
        asked, corrected = self._corrected(terms.words(question))
        ranked = self._ranked(question, asked)
        if not ranked or not self._answers(question, ranked[0], asked):
            return Answer([], [each.section for each in ranked[:3]], corrected, more=False)
        start = (page - 1) * limit
        shown = ranked[start : start + limit]
        cut = passages.fit([each.section for each in shown], frozenset(asked), max_tokens * 4)
        hits = [Hit(each.section, round(each.score, 2), text, whole) for each, (text, whole) in zip(shown, cut, strict=True)]
        return Answer(hits, [], corrected, more=len(ranked) > start + limit)

    def sections(self) -> list[Section]:
        """Every section, in the order of the corpus."""
        return [self._record(number).section for number in self._reader.all_doc_ids()]

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

    def _record(self, number: int) -> _Record:
        if number not in self._records:
            section, title, asks, keys, words = self._reader.stored_fields(number)["record"]
            forms = tuple(frozenset(form.split()) for form in asks)
            self._records[number] = _Record(Section(*section), frozenset(title.split()), forms, keys, frozenset(words.split()))
        return self._records[number]

    def _ranked(self, question: str, asked: list[str]) -> list[_Candidate]:
        key = _key(question)
        wanted = dict.fromkeys(asked, 1.0)
        for term in terms.terms(question):
            if term not in wanted:
                wanted[term] = _WHOLE if term.startswith("=") else _PAIR
        others = terms.related(asked)
        for word in others:
            wanted.setdefault(word, _SYNONYM)
        exact = f"@{key}"
        if exact in self._vocabulary:
            wanted[exact] = 20.0
        scores: Counter[int] = Counter()
        for term in self._telling(wanted):
            factor = wanted[term] * self._weight(term)
            for number, impact in self._impacts(term):
                scores[number] += factor * impact  # type: ignore[assignment]  # Counter is typed for whole numbers
        found = [
            self._judged(self._record(number), base, asked, others, key) for number, base in scores.most_common(_CANDIDATES)
        ]
        return sorted(found, key=lambda each: (-each.exact, -each.score))

    def _impacts(self, term: str) -> list[tuple[int, float]]:
        """The sections that have a term, and how much it says about each of them (BM25, without idf)."""
        if term not in self._postings:
            matcher, found = self._reader.postings("terms", term), []
            while matcher.is_active():
                found.append((matcher.id(), matcher.weight()))
                matcher.next()
            self._postings[term] = found
        return self._postings[term]

    def _telling(self, wanted: dict[str, float]) -> list[str]:
        """The terms that decide: common ones cost most of the time and tell candidates apart least, so they must be few."""
        known = sorted(
            (term for term in wanted if term in self._vocabulary), key=lambda term: -self._weight(term) * wanted[term]
        )
        common = log(1 + 1 / _COMMON)
        rare = [term for term in known if self._weight(term) > common]
        return (rare if len(rare) > 5 else known)[:_MAX_QUERY_TERMS]

    def _judged(self, record: _Record, base: float, asked: list[str], others: dict[str, str], key: str) -> _Candidate:
        """A candidate with its final score, from Whoosh's and from how it covers the question's words."""
        distinct = frozenset(asked)
        total = sum(map(self._weight, distinct)) or 1.0
        coverage = self._shared(distinct, record.words, others) / total
        titled = self._shared(distinct, record.title, others) / total
        alike = max((self._likeness(distinct, form, others, total) for form in record.asks), default=0.0)
        score = base * (_COVERAGE + coverage) * (1 + _TITLED * titled + _ALIKE * alike)
        return _Candidate(record.section, score, coverage, alike, key in record.keys)

    def _shared(self, distinct: frozenset[str], words: frozenset[str], others: dict[str, str]) -> float:
        """Weight of the question's words that `words` has, a synonym counting for a part of it."""
        here = distinct & words
        meant = {others[other] for other in others.keys() & words} - here
        return sum(map(self._weight, here)) + _MEANT * sum(map(self._weight, meant))

    def _likeness(self, distinct: frozenset[str], form: frozenset[str], others: dict[str, str], total: float) -> float:
        """How alike the question and one authored question form are, 0 to 1 (a weighted Jaccard index)."""
        shared = self._shared(distinct, form, others)
        return shared and shared / (total + _REST * sum(map(self._weight, form - distinct - others.keys())))

    def _answers(self, question: str, best: _Candidate, asked: list[str]) -> bool:
        """Whether the best candidate is an answer, or only the least bad section for a question outside the field.

        No score tells the two apart by itself: a short question of the field scores less than a long one about something
        else. So it takes the field's own words, little that the corpus has never heard of, and enough of the question covered.
        """
        if best.exact:
            return True
        distinct = frozenset(asked)
        total = sum(map(self._weight, distinct))
        unknown = sum(self._weight(word) for word in distinct if word not in self._vocabulary)
        about = " ".join((*best.section.headings, *best.section.asks)).lower()
        if not total or any(name not in about for name in terms.strangers(question)):
            return False
        at_home = not distinct.isdisjoint(terms.ANCHORS)
        return best.coverage >= (0.25 if at_home else 0.5) and unknown <= (0.4 if at_home else 0.12) * total


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


def _essence(question: str) -> str:
    """A pasted traceback without its frames: what stands at the left margin, and last, says what went wrong."""
    lines = question.splitlines()
    if len(lines) < 4:
        return question
    margin = [line for line in lines if line[:1].strip() and not line.startswith("Traceback (most recent")]
    return "\n".join((margin or lines)[-12:])


def _key(text: str) -> str:
    """The form in which identifiers, headings and error texts are compared as a whole."""
    return " ".join(terms.plain(text).lower().replace("`", "").split()).strip(" .?!:()\"'")


def _keys(section: Section) -> tuple[str, ...]:
    heading = section.headings[-1]
    spans = re.findall(r"`([^`]+)`", heading)
    return tuple(dict.fromkeys(_key(text) for text in (heading, section.anchor, *spans, *section.errors)))


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
        return folder.stat().st_uid == os.getuid() and all(
            (folder / name).stat().st_size == int(listed[name]) for name in listed
        )
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


def _frequencies(section: Section) -> Counter[str]:
    """How often a section has each term, a heading counting three times, question forms and error texts twice."""
    found = Counter(terms.terms(section.text))
    for weight, texts in ((3, section.headings[-1:]), (1, section.headings[:-1]), (2, section.asks), (2, section.errors)):
        for text in texts:
            for term in terms.terms(text):
                found[term] += weight
    return found


def _write(storage: Any, sections: list[Section]) -> Any:
    """A Whoosh index of `sections` in `storage`. Each posting's weight is its BM25 impact, idf left to the question."""
    schema = fields.Schema(terms=fields.TEXT(analyzer=_Weighted(), phrase=False), record=fields.STORED())
    made = storage.create_index(schema)
    counted = [_frequencies(section) for section in sections]
    usual = sum(counts.total() for counts in counted) / max(1, len(counted))
    vocabulary: set[str] = set()
    writer = made.writer()
    for section, counts in zip(sections, counted, strict=True):
        length = _K1 * (1 - _B + _B * counts.total() / usual)
        keys = _keys(section)
        weights = {term: count * (_K1 + 1) / (count + length) for term, count in counts.items()}
        weights.update((f"@{key}", 1.0) for key in keys)
        vocabulary.update(weights)
        title = " ".join(terms.words(section.headings[-1]))
        asks = [" ".join(terms.words(form)) for form in section.asks]
        words = " ".join(term for term in counts if term[0] != "=" and "+" not in term)
        lines = "\n".join(f"{term}\t{weight:.4f}" for term, weight in weights.items())
        writer.add_document(terms=lines, record=(tuple(section), title, asks, keys, words))
    writer.commit()
    with storage.create_file("vocabulary") as file:
        file.write("\n".join(sorted(vocabulary)).encode())
    return made
