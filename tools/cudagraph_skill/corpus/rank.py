"""A question against sections: how much of it each one covers, and whether the best is an answer at all. No engine in here.

The numbers below were set on `split: dev` of benchmarks/questions.yaml, those of refusal with all its outside questions in
sight; the optimum is flat, so they say more about what counts than about how much.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.corpus import terms
from cudagraph_skill.corpus.section import Section
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CHARACTERS = 20_000  # of a question: several pages of log
K1 = 1.6  # BM25: how fast repetition saturates
_WHOLE, _PAIR, _SYNONYM = 1.5, 0.8, 0.15  # weight of a whole identifier, a pair of adjacent words, a synonym beside a word
_COVERAGE, _TITLED, _ALIKE = 0.8, 1.2, 0.7  # what coverage, heading and question forms add to the engine's score
_MEANT, _REST = 0.5, 0.5  # a synonym found beside the word itself; a form's other words beside the question's


class Record(NamedTuple):
    """A section as the index holds it: what it says, and the words that rank it.

    `title`, `asks` and `rest` are words in order; `length` is what BM25 makes of the section's length.
    """

    section: Section
    title: str
    asks: list[str]
    rest: str
    keys: list[str]
    length: float

    def adjacent(self, first: str, second: str) -> int:
        """Return how often two words follow each other, weighted as `analysis` weights the parts of a section."""
        pair = f" {first} {second} "
        asked = sum(f" {form} ".count(pair) for form in self.asks)
        return 3 * f" {self.title} ".count(pair) + 2 * asked + f" {self.rest} ".count(pair)


def record(text: str) -> Record:
    """Return the record that `analysis` wrote as JSON."""
    section, *rest = json.loads(text)
    names = dict(zip(Section._fields, section, strict=True))
    lists = {name: tuple(value) for name, value in names.items() if isinstance(value, list)}
    return Record(Section(**names | lists), *rest)


class Candidate(NamedTuple):
    """A section with its score; `coverage` is its share of the question's weight, `exact` that it goes by that name."""

    section: Section
    score: float
    coverage: float
    exact: bool


class Question:
    """A question in the field's terms. `weight` gives a term's inverse document frequency; `guessed` words were misspelt."""

    def __init__(self, text: str, weight: Callable[[str], float], guessed: frozenset[str] = frozenset()) -> None:
        in_order, names = terms.analysed(text)
        self.text = text
        self.words = frozenset(in_order)
        self.key = key(text)
        self._names = names
        self._guessed = guessed
        self._meant = terms.related(in_order)
        self._weight = weight
        self._total = sum(map(weight, self.words)) or 1.0
        self._pairs = {pair: self._pair_weight(*pair) for pair in pairwise(in_order)}

    def _pair_weight(self, first: str, second: str) -> float:
        """Weigh two adjacent words as if they met by chance, but no more than a word that a single section has."""
        return _PAIR * min(self._weight(first) + self._weight(second), self._weight(""))

    def wanted(self) -> dict[str, float]:
        """Return the index terms to look for, each with what it counts beside a word of the question."""
        factors = dict.fromkeys(self.words, 1.0)
        for name in self._names:
            factors.setdefault(name, _WHOLE if name[0] == "=" else 1.0)
        for word in self._meant:
            factors.setdefault(word, _SYNONYM)
        return factors

    def judge(self, record: Record, base: float) -> Candidate:
        """Return a candidate with its final score, from the engine's `base` and from how the section covers the question."""
        title, asks = frozenset(record.title.split()), [frozenset(form.split()) for form in record.asks]
        coverage = self._shared(title.union(record.rest.split(), *asks)) / self._total
        titled = self._shared(title) / self._total
        alike = max(map(self._likeness, asks), default=0.0)
        score = (base + self._adjacency(record)) * (_COVERAGE + coverage) * (1 + _TITLED * titled + _ALIKE * alike)
        return Candidate(record.section, score, coverage, self.key in record.keys)

    def _adjacency(self, record: Record) -> float:
        """Return the BM25 score of the question's pairs of adjacent words."""
        counts = {pair: record.adjacent(*pair) for pair in self._pairs}
        return sum(self._pairs[pair] * count * (K1 + 1) / (count + record.length) for pair, count in counts.items())

    def _shared(self, words: frozenset[str]) -> float:
        """Return the weight of the question's words that `words` has, a synonym counting for a part of it."""
        here = self.words & words
        meant = {self._meant[other] for other in self._meant.keys() & words} - here
        return sum(map(self._weight, here)) + _MEANT * sum(map(self._weight, meant))

    def _likeness(self, form: frozenset[str]) -> float:
        """Return how alike the question and one authored question form are, 0 to 1 (a weighted Jaccard index)."""
        rest = sum(map(self._weight, form - self.words - self._meant.keys()))
        return self._shared(form) / (self._total + _REST * rest)

    def is_answered_by(self, best: Candidate, is_known: Callable[[str], object]) -> bool:
        """Return whether the best candidate is an answer, or only the least bad section for a question outside the field.

        No score tells the two apart by itself: a short question of the field scores less than a long one about something
        else. So it takes the field's own words, little that no section has, and enough of the question covered.
        """
        if best.exact:
            return True
        about = " ".join((*best.section.headings, *best.section.asks)).lower()
        if not any(len(word) > 1 for word in self.words) or any(name not in about for name in terms.strangers(self.text)):
            return False
        doubtful = (word for word in self.words if word in self._guessed or not is_known(word))
        unknown = sum(map(self._weight, doubtful)) / self._total
        if self.words & terms.anchors():
            return best.coverage >= 0.35 and unknown <= 0.4
        return best.coverage >= 0.45 and unknown <= 0.15


def checked(question: str) -> str:
    """Return a question that can be searched for, without blanks at its ends.

    Raises:
        SkillError: it is empty, binary or longer than MAX_CHARACTERS.
    """
    text = re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", question).strip()  # bytes that the shell could not read
    if not text:
        raise SkillError('the question is empty: type what you want to know, for example "capture fails in backward"')
    if len(text) > MAX_CHARACTERS:
        raise SkillError(
            f"the question has {len(text):,} characters, at most {MAX_CHARACTERS:,} are searched: "
            "give the error line or the question alone"
        )
    odd = sum(char == "\N{REPLACEMENT CHARACTER}" or not (char.isprintable() or char.isspace()) for char in text)
    if odd * 10 > len(text):
        raise SkillError("the question is binary data, not text: give the error line or the question alone")
    return text


def key(text: str) -> str:
    """Return the form in which identifiers, headings and error texts are compared as a whole."""
    return " ".join(terms.plain(text).lower().replace("`", "").split()).strip(" .?!:()\"'")


def keys(section: Section) -> tuple[str, ...]:
    """Return what a section goes by: heading, anchor, identifiers in the heading, error texts and questions that lead to it."""
    heading = section.headings[-1]
    spans = re.findall(r"`([^`]+)`", heading)
    errors = [error.lstrip("~^") for error in section.errors]
    return tuple(dict.fromkeys(key(text) for text in (heading, section.anchor, *spans, *errors, *section.asks)))
