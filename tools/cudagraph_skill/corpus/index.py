"""Answer questions from an index of sections, which is built once for each content and kept in the user's cache folder.

A store holds postings and records; Whoosh keeps it where Whoosh is installed, SQLite where it is not, and memory where nothing
can be kept. All three hold the same content, so the answers are the same. The sections with the best sums of BM25 impacts are
candidates, which `rank` puts in order.
"""

from __future__ import annotations

import re
from functools import lru_cache
from heapq import nlargest
from importlib import import_module
from math import log
from threading import Lock
from typing import TYPE_CHECKING, Any

from cudagraph_skill.corpus import cache, excerpt, files, language, rank, terms
from cudagraph_skill.corpus.rank import Candidate, Question, Record
from cudagraph_skill.corpus.section import Answer, Hit, Section
from cudagraph_skill.corpus.store import bucket
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cudagraph_skill.corpus.analysis import Content
    from cudagraph_skill.corpus.store import Posting, Store

FORMAT = 12  # raise it when what the index holds changes: older indexes are then built again
WHOLE_TOKENS, PASSAGE_TOKENS = 400, 229  # the longest section; a share that leaves most of three sections whole
_CANDIDATES = 30
_MAX_QUERY_TERMS = 48  # a pasted traceback: beyond its rarest terms, the rest only costs time
_COMMON = 0.5  # a term that more than this share of the sections has
_NAMED = 100.0  # what a name of a section adds to its score: more than any words do
_SPELLING = "spelling"
_SPELLED = 4  # letters of the shortest word that the spelling knows
_FEW = 8  # names of APIs in a question; a log has more, its own
_NAME = re.compile(r"(?<![\w./:-])[a-zA-Z]\w*(?:[._]\w+)+(?![\w/:-])")  # torch.cuda.graph, no path and no address


class Index:
    """An open index over one corpus. Threads may share it; it never writes."""

    def __init__(self, store: Store, spelling: str) -> None:
        self._store = store
        self._count = max(1, len(store))
        words = frozenset(spelling.split("\n"))
        self._names = frozenset(word for word in words if not word.isalpha())
        self._spelling = words - self._names
        self._known: dict[str, int] = {}
        self._weights: dict[str, float] = {}
        self._records: dict[int, Record] = {}
        self._postings: dict[str, Posting] = {}
        self._alone = Lock()  # readers of a store share a file position

    def search(self, question: str, limit: int = 3, page: int = 1, max_tokens: int | None = None) -> Answer:
        """Return up to `limit` sections that answer `question`, their text cut to about `max_tokens` in all.

        A token is counted as four characters; without `max_tokens` each section adds PASSAGE_TOKENS. `page` 2 continues
        where page 1 ended.

        Raises:
            SkillError: the question is empty, binary or longer than rank.MAX_CHARACTERS, or there is no such page.
        """
        with self._alone:
            text = _essence(rank.checked(question))
            english = language.english(text, self._is_known)
            text, corrected = self._corrected(text) if english is None else (english, {})
            guessed = {typed.lower(): used for typed, used in corrected.items() if used.isalpha()}  # a name is long: no guess
            asked = Question(text, self._weight, guessed)
            ranked = self._ranked(asked, max(_CANDIDATES, page * limit + 1))
        if not ranked or not asked.is_answered_by(ranked[0], self._sections_with):
            return Answer([], [candidate.section for candidate in ranked[:3]], corrected, more=False, english=english)
        start = (page - 1) * limit
        shown = ranked[start : start + limit]
        if not shown:
            raise SkillError(
                f"page {page} is past the end: {len(ranked)} sections match, {-(-len(ranked) // limit)} pages of {limit}"
            )
        tokens = max_tokens or max(WHOLE_TOKENS, limit * PASSAGE_TOKENS)
        cut = excerpt.fit([candidate.section for candidate in shown], asked.words, tokens * 4)
        hits = [Hit(best.section, round(best.score, 2), part, whole) for best, (part, whole) in zip(shown, cut, strict=True)]
        return Answer(hits, [], corrected, more=len(ranked) > start + limit, english=english)

    def sections(self) -> list[Section]:
        """Return every section, in the order of the corpus."""
        with self._alone:
            return [self._record(number).section for number in range(len(self._store))]

    def _corrected(self, question: str) -> tuple[str, dict[str, str]]:
        """Return the question with each word that no section has replaced by the likeliest one, where there is one."""
        fixes = {}
        for word in set(re.findall(r"(?<![\w.-])[a-zA-Z]{4,30}(?![\w.-])", question)):
            if fix := self._fix(word.lower()):
                fixes[word] = fix
                question = re.sub(rf"\b{word}\b", fix, question)
        names = set(_NAME.findall(question))
        for name in names if len(names) <= _FEW else ():
            if fix := self._fixed_name(name):
                fixes[name] = fix
                question = question.replace(name, fix)
        return question, fixes

    def _fixed_name(self, name: str) -> str | None:
        """Return the name of an API that is one edit away from one that no section has."""
        known = self._sections_with(f"={name.lower()}")
        return None if known else terms.edited(name.lower(), self._names, lambda other: self._sections_with(f"={other}"))

    def _fix(self, word: str) -> str | None:
        """Return what to search for instead of a misspelt word; of a known stem only a doubled letter is repaired."""
        if word in self._spelling or word in terms.STOP_WORDS or terms.elsewhere(word):
            return None
        fix = terms.spelled(word, self._spelling, lambda other: self._sections_with(terms.stem(other)))
        known = any(self._sections_with(part) for part in terms.words(word))
        return fix if fix and (not known or _single(fix) == _single(word)) else None

    def _is_known(self, word: str) -> bool:
        """Return whether a section has a word; a long one as it is written: words of other languages may have its stem."""
        if word.isascii() and word.isalpha() and len(word) >= _SPELLED:
            return word in self._spelling
        return self._sections_with(terms.stem(word)) > 0

    def _sections_with(self, term: str) -> int:
        if term not in self._known:
            self._known[term] = self._store.frequency(term)
        return self._known[term]

    def _weight(self, term: str) -> float:
        """Return the inverse document frequency; an unknown word weighs as much as one that a single section has."""
        if term not in self._weights:
            self._weights[term] = log(1 + self._count / (0.5 + max(self._sections_with(term), 1)))
        return self._weights[term]

    def _record(self, number: int) -> Record:
        if number not in self._records:
            self._records[number] = rank.record(self._store.record(number))
        return self._records[number]

    def _ranked(self, asked: Question, most: int) -> list[Candidate]:
        wanted = asked.wanted()
        scores: dict[int, float] = {}
        for term in self._telling(wanted):
            factor = wanted[term] * self._weight(term)
            for number, impact in zip(*self._posting(term), strict=True):
                scores[number] = scores.get(number, 0.0) + factor * impact
        for number in {number for name in asked.keys for number in self._named(name)}:
            scores[number] = scores.get(number, 0.0) + _NAMED
        best = nlargest(most, scores.items(), key=lambda item: item[1])
        candidates = [asked.judge(self._record(number), base) for number, base in best]
        return sorted(candidates, key=lambda candidate: (-candidate.exact, -candidate.score))

    def _named(self, name: str) -> list[int]:
        """Return the sections that go by a name."""
        return [number for number in self._posting(bucket(name))[0] if name in self._record(number).keys]

    def _posting(self, term: str) -> Posting:
        if term not in self._postings:
            self._postings[term] = self._store.posting(term)
        return self._postings[term]

    def _telling(self, wanted: dict[str, float]) -> list[str]:
        """Return the terms that decide, few of them common: those cost most of the time and tell candidates apart least."""
        known = [term for term in wanted if self._sections_with(term)]
        known.sort(key=lambda term: -self._weight(term) * wanted[term])
        rare = [term for term in known if self._sections_with(term) < _COMMON * self._count]
        return (rare if len(rare) > 5 else known)[:_MAX_QUERY_TERMS]


def _single(word: str) -> str:
    """Return a word with each doubled letter written once."""
    return re.sub(r"(.)\1", r"\1", word)


def _essence(question: str) -> str:
    """Return a pasted traceback without its frames: what stands at the left margin, and last, says what went wrong."""
    lines = question.splitlines()
    if len(lines) < 4:
        return question
    margin = [line for line in lines if line[:1].strip() and not line.startswith("Traceback (most recent")]
    return "\n".join((margin or lines)[-12:])


@lru_cache(maxsize=1)
def _engine() -> Any:
    """Return the module that keeps an index: Whoosh's where it is installed, else SQLite's.

    Raises:
        OSError: this Python has neither.
    """
    for name in ("whoosh_store", "sqlite_store"):
        try:
            return import_module(f"cudagraph_skill.corpus.{name}")
        except ModuleNotFoundError as error:
            missing = error.name
    raise OSError(0, f"this Python has no {missing}")


def open_index(root: Path, extra: Path | None = None, say: Callable[[str], None] = lambda _: None) -> Index:
    """Open the index over the skill's own Markdown and that under `extra`, and build it first if need be.

    `say` gets notes for the user.

    Raises:
        SkillError: `extra` is no readable folder with Markdown.
    """
    docs = files.documents(root, extra)
    try:
        engine = _engine()
        folder = cache.folder() / f"index-{FORMAT}-{engine.NAME}-{files.digest(docs)}"
        return _opened(engine, folder) or _built(engine, docs, folder, say)
    except OSError as error:
        reason = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        say(
            f"the search index cannot be kept ({reason}), so each call builds it; "
            "set CUDAGRAPH_SKILL_CACHE to a folder that you can write to"
        )
        return _in_memory(_content(docs, say))


def _opened(engine: Any, folder: Path) -> Index | None:
    """Open the index in a folder; None where there is none that can be used."""
    if not cache.is_whole(folder):
        return None
    try:
        return Index(engine.open_store(folder), (folder / _SPELLING).read_text(encoding="utf-8"))
    except Exception:  # noqa: BLE001 - whatever an engine raises at a damaged file, the answer is to build it again
        return None


def _built(engine: Any, docs: list[files.Document], folder: Path, say: Callable[[str], None]) -> Index:
    """Build the index and keep it in a folder, unless another process has done so meanwhile."""
    from cudagraph_skill.corpus import building

    def write(empty: Path) -> None:
        engine.write(empty, content)
        (empty / _SPELLING).write_text(content.spelling, encoding="utf-8")

    with building.lock(folder.parent, say):
        if index := _opened(engine, folder):
            return index
        say(f"building the search index of {len(docs)} files, once: it is kept in {folder.parent}")
        content = _content(docs, say)
        building.build(folder, write)
        return _opened(engine, folder) or _in_memory(content)


def _content(docs: list[files.Document], say: Callable[[str], None]) -> Content:
    from cudagraph_skill.corpus import analysis, load

    return analysis.content(load.sections(docs, say))


def _in_memory(content: Content) -> Index:
    return Index(content, content.spelling)
