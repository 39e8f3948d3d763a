"""Question to the smallest sufficient passages: the only module that knows Whoosh's index (`terms` borrows its stemmer).

Whoosh keeps one weighted field for each section, in which heading, question forms and error texts count more than body; what
it stores with a posting is the term's BM25 impact. One field, because Whoosh's own BM25F saturates each field by itself, which
lets a word in a heading outweigh everything else. The best sums are candidates, which `ranking` puts in order.

The index is built once for each corpus content, in the user's cache folder, and renamed into place when it is complete; so a
reader never sees half of one, and processes that build at the same time do not disturb each other.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from heapq import nlargest
from math import log
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cudagraph_skill.corpus import excerpt, load, rank, terms
from cudagraph_skill.corpus.rank import Candidate, Question, Record
from cudagraph_skill.corpus.section import Answer, Hit, Section
from cudagraph_skill.errors import SkillError
from cudagraph_skill.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def _without_downloads() -> Iterator[None]:
    """Whoosh imports urllib.request, with http, ssl and email behind it, and uses nothing of it: a fifth of a cold search."""
    if "urllib.request" in sys.modules:
        yield
        return
    stand_in = ModuleType("urllib.request")
    stand_in.urlretrieve = None  # type: ignore[attr-defined]
    sys.modules["urllib.request"] = stand_in
    try:
        yield
    finally:
        del sys.modules["urllib.request"]


with _without_downloads():
    from whoosh import analysis, fields
    from whoosh.filedb.filestore import FileStorage, RamStorage

FORMAT = 7  # raise it when what the index holds changes: older indexes are then built again
WHOLE_TOKENS, PASSAGE_TOKENS = 400, 235  # the longest section; a share that leaves most of three sections whole
_CANDIDATES = 30
_MAX_QUERY_TERMS = 48  # a pasted traceback: beyond its rarest terms, the rest only costs time
_COMMON = 0.5  # a term that more than this share of the sections has
_K1, _B = 1.6, 0.6  # BM25: how fast repetition saturates, how much length counts against a section
_ABANDONED_SECONDS = 3600
_KEPT_INDEXES = 8
_FORMS = 12  # question forms of a cause that are indexed: it has more, for logs, and they would drown all other sections


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
        with whoosh_index.storage.open_file("spelling") as file:
            self._spelling = frozenset(file.read().decode().split("\n"))
        self._known: dict[str, int] = {}
        self._weights: dict[str, float] = {}
        self._records: dict[int, Record] = {}
        self._postings: dict[str, list[tuple[int, float]]] = {}
        self._alone = Lock()  # Whoosh's readers share a file position

    def search(self, question: str, limit: int = 3, page: int = 1, max_tokens: int | None = None) -> Answer:
        """Up to `limit` sections that answer `question`, their text cut to about `max_tokens` in all.

        A token is counted as four characters; without `max_tokens` each section adds PASSAGE_TOKENS. `page` 2 continues
        where page 1 ended.

        Raises:
            SkillError: the question is empty, binary or longer than ranking.MAX_CHARACTERS, or there is no such page.
        """
        with self._alone:
            text, corrected = self._corrected(_essence(rank.checked(question)))
            asked = Question(text, self._weight, frozenset(terms.words(" ".join(corrected.values()))))
            ranked = self._ranked(asked, max(_CANDIDATES, page * limit + 1))
        if not ranked or not asked.is_answered_by(ranked[0], self._sections_with):
            return Answer([], [each.section for each in ranked[:3]], corrected, more=False)
        start = (page - 1) * limit
        shown = ranked[start : start + limit]
        if not shown:
            raise SkillError(
                f"page {page} is past the end: {len(ranked)} sections match, {-(-len(ranked) // limit)} pages of {limit}"
            )
        tokens = max_tokens or max(WHOLE_TOKENS, limit * PASSAGE_TOKENS)
        cut = excerpt.fit([each.section for each in shown], asked.words, tokens * 4)
        hits = [Hit(each.section, round(each.score, 2), part, whole) for each, (part, whole) in zip(shown, cut, strict=True)]
        return Answer(hits, [], corrected, more=len(ranked) > start + limit)

    def sections(self) -> list[Section]:
        """Every section, in the order of the corpus."""
        with self._alone:
            return [self._record(number).section for number in self._reader.all_doc_ids()]

    def _corrected(self, question: str) -> tuple[str, dict[str, str]]:
        """The question with each word that no section has replaced by one an edit away, where there is one."""
        fixes = {}
        for word in set(re.findall(r"(?<![\w.-])[a-zA-Z]{5,30}(?![\w.-])", question)):
            known = any(self._sections_with(part) for part in terms.words(word)) or word.lower() in terms.STOP_WORDS
            if not known and not terms.strangers(word) and (fix := terms.spelled(word.lower(), self._spelling)):
                fixes[word] = fix
                question = re.sub(rf"\b{word}\b", fix, question)
        return question, fixes

    def _sections_with(self, term: str) -> int:
        if term not in self._known:
            self._known[term] = int(self._reader.doc_frequency("terms", term))
        return self._known[term]

    def _weight(self, term: str) -> float:
        """Inverse document frequency; an unknown word weighs as much as one that a single section has."""
        if term not in self._weights:
            self._weights[term] = log(1 + self._count / (0.5 + max(self._sections_with(term), 1)))
        return self._weights[term]

    def _record(self, number: int) -> Record:
        if number not in self._records:
            section, title, asks, keys, words = self._reader.stored_fields(number)["record"]
            forms = tuple(frozenset(form.split()) for form in asks)
            self._records[number] = Record(Section(*section), frozenset(title.split()), forms, keys, frozenset(words.split()))
        return self._records[number]

    def _ranked(self, asked: Question, most: int) -> list[Candidate]:
        wanted = asked.wanted()
        scores: dict[int, float] = {}
        for term in self._telling(wanted):
            factor = wanted[term] * self._weight(term)
            for number, impact in self._impacts(term):
                scores[number] = scores.get(number, 0.0) + factor * impact
        best = nlargest(most, scores.items(), key=lambda item: item[1])
        found = [asked.judge(self._record(number), base) for number, base in best]
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
        known = [term for term in wanted if self._sections_with(term)]
        known.sort(key=lambda term: -self._weight(term) * wanted[term])
        rare = [term for term in known if self._sections_with(term) < _COMMON * self._count]
        return (rare if len(rare) > 5 else known)[:_MAX_QUERY_TERMS]


def _essence(question: str) -> str:
    """A pasted traceback without its frames: what stands at the left margin, and last, says what went wrong."""
    lines = question.splitlines()
    if len(lines) < 4:
        return question
    margin = [line for line in lines if line[:1].strip() and not line.startswith("Traceback (most recent")]
    return "\n".join((margin or lines)[-12:])


def open_index(root: Path, extra: Path | None = None, say: Callable[[str], None] = lambda _: None) -> Index:
    """The index over the skill's own Markdown and that under `extra`, built first if need be; `say` gets notes for the user.

    Raises:
        SkillError: `extra` is no readable folder with Markdown.
    """
    docs = load.documents(root, extra)
    try:
        folder = cache_dir() / f"{FORMAT}-{load.digest(docs)}"
        found = _opened(folder)
        if not found:
            _build(docs, folder, say)
            found = _opened(folder)
        if found:
            return found
        raise OSError(f"no index arrived in {folder}")
    except OSError as error:
        reason = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        say(
            f"the search index cannot be kept ({reason}), so each call builds it; "
            "set CUDAGRAPH_SKILL_CACHE to a folder that you can write to"
        )
        return Index(_write(RamStorage(), load.sections(docs, say)))


def _opened(folder: Path) -> Index | None:
    """The index in a folder, or None where there is none that can be used."""
    if not _is_whole(folder):
        return None
    try:
        return Index(FileStorage(str(folder)).open_index())
    except Exception:  # noqa: BLE001 - whatever Whoosh raises at a damaged file, the answer is to build it again
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _is_whole(folder: Path) -> bool:
    """Whether an index stands there, is ours (it is unpickled: never open a stranger's), and no file of it was damaged."""
    try:
        listed = dict(line.rsplit(" ", 1) for line in (folder / "sizes").read_text().splitlines())
        return (
            "spelling" in listed
            and folder.stat().st_uid == os.getuid()
            and all((folder / name).stat().st_size == int(listed[name]) for name in listed)
        )
    except (OSError, ValueError):
        return False


def _build(docs: list[load.Document], folder: Path, say: Callable[[str], None]) -> None:
    """Build in a folder of our own, then rename; whoever was first wins, and all indexes of a name are equal."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    say(f"building the search index of {len(docs)} files, once: it is kept in {folder.parent}")
    try:
        _write(FileStorage(str(building)), load.sections(docs, say)).close()
        sizes = "".join(f"{path.name} {path.stat().st_size}\n" for path in sorted(building.iterdir()))
        (building / "sizes").write_text(sizes)
        if not _is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # another process was first
                building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    _sweep(folder)


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
    sections = [each._replace(asks=each.asks[:_FORMS], tells=()) if load.is_cause(each) else each for each in sections]
    counted = [_frequencies(section) for section in sections]
    usual = sum(counts.total() for counts in counted) / max(1, len(counted))
    writer = made.writer()
    for section, counts in zip(sections, counted, strict=True):
        length = _K1 * (1 - _B + _B * counts.total() / usual)
        keys = rank.keys(section)
        weights = {term: count * (_K1 + 1) / (count + length) for term, count in counts.items()}
        weights.update((f"@{key}", 1.0) for key in keys)
        title = " ".join(terms.words(section.headings[-1]))
        asks = [" ".join(terms.words(form)) for form in section.asks]
        words = " ".join(term for term in counts if term[0] != "=" and "+" not in term)
        lines = "\n".join(f"{term}\t{weight:.4f}" for term, weight in weights.items())
        indexed = {"terms": lines} if section.text else {}  # a heading alone is for the table of contents
        writer.add_document(**indexed, record=(tuple(section), title, asks, keys, words))
    writer.commit()
    text = " ".join(f"{section.text} {' '.join(section.headings + section.asks)}" for section in sections)
    with storage.create_file("spelling") as file:
        file.write("\n".join(sorted(set(re.findall(r"[a-z]{4,}", text.lower())))).encode())
    return made
