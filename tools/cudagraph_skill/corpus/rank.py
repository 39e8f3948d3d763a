"""A question against sections: how much of it each one covers, and whether the best is an answer at all. No engine in here.

The numbers below were set on `split: dev` of benchmarks/questions.yaml, those of refusal with all its outside questions in
sight; the optimum is flat, so they say more about what counts than about how much.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.corpus import terms
from cudagraph_skill.corpus.section import Section
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_CHARACTERS = 20_000  # of a question: several pages of log
K1 = 1.6  # BM25: how fast repetition saturates
_WHOLE, _PAIR, _SYNONYM = 1.5, 0.9, 0.15  # weight of a whole identifier, a pair of adjacent words, a synonym beside a word
_COVERAGE, _TITLED, _ALIKE = 0.8, 1.2, 0.7  # what coverage, heading and question forms add to the engine's score
_MEANT, _REST = 0.5, 0.5  # a synonym found beside the word itself; a form's other words beside the question's
_FRAGMENT = 2  # words of a question that only names something: then the overview of it is wanted
_LEADS, _BEGINS, _BRIEF = 0.8, 0.5, 0.5  # first section below a heading of that name; so named itself; an introduction alone
_INTRODUCTION = 400  # characters below a heading with sections of its own, which only leads to these
_FUNCTION, _ASKED = 1.0, 2.0  # weight of a stop word beside a word, and of all, where all sections have the question's words
_END = "*"  # before the last parts of a dotted name
_IDENTIFIER = re.compile(r"^\S*(?:_|[a-z.][A-Z]|[A-Z]{2}|\(\))\S*$")  # what is typed as code and is no plain word
_SHORT = 4  # words of a question that must stand in one heading or form for the most part: a long text has any four
_HALF, _MOST = 0.5, 0.6  # of the question's weight in one place: it is short, is misspelt
_EVERYWHERE = frozenset("cuda graph pytorch torch gpu model".split())


class Record(NamedTuple):
    """A section as the index holds it: what it says, and the words that rank it.

    `title`, `asks` and `rest` are words in order; `length` is what BM25 makes of the section's length; `leads` that the section
    is the first one below its heading.
    """

    section: Section
    title: str
    asks: list[str]
    rest: str
    keys: list[str]
    length: float
    leads: bool

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
    """A section with its score and the shares of the question's weight that it covers: with all its words, in one place.

    `exact` is 3 where the question is its heading, an error text or a form, 2 where it is the overview of an API that the
    question names, 1 where its heading has that name, else 0.
    """

    section: Section
    score: float
    coverage: float
    together: float
    exact: int


class Question:
    """A question in the field's terms.

    `weight` gives a term's inverse document frequency; `corrected` maps misspelt words to those that `text` has instead.
    """

    def __init__(self, text: str, weight: Callable[[str], float], corrected: Mapping[str, str] = MappingProxyType({})) -> None:
        in_order, names = terms.analysed(text)
        self.text = text
        self.words = frozenset(in_order)
        self.keys = {key(text), _END + key(text)} if _IDENTIFIER.search(text) else {key(text)}
        self._names = names
        self._guessed = frozenset(terms.words(" ".join(corrected.values())))
        self._changed = any(len(typed) == len(used) and sorted(typed) != sorted(used) for typed, used in corrected.items())
        self._meant = terms.related(in_order)
        self._weight = weight
        self._total = sum(map(weight, self.words)) or 1.0
        self._pairs = {pair: self._pair_weight(*pair) for pair in pairwise(in_order)}
        self._in_order = in_order
        self._functional = terms.functional(text) if self.words <= _EVERYWHERE else []

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
        for word in self._functional:
            factors.setdefault(word, _FUNCTION)
        return factors

    def judge(self, record: Record, base: float) -> Candidate:
        """Return a candidate with its final score, from the engine's `base` and from how the section covers the question."""
        title, asks = frozenset(record.title.split()), [frozenset(form.split()) for form in record.asks]
        coverage = self._shared(title.union(record.rest.split(), *asks)) / self._total
        titled = self._shared(title) / self._total
        alike = max(map(self._likeness, asks), default=0.0)
        score = (base + self._adjacency(record)) * (_COVERAGE + coverage) * (1 + _TITLED * titled + _ALIKE * alike)
        if self._functional:
            score *= 1 + _ASKED * max(map(self._alike_in_function, (subject(record.section), *record.section.asks)))
        elif len(self._in_order) <= _FRAGMENT:
            score *= self._overview(record)
        together = max(titled, max((self._shared(form) for form in asks), default=0.0) / self._total)
        return Candidate(record.section, score, coverage, together, self._exact(record))

    def _exact(self, record: Record) -> int:
        if not self.keys.intersection(record.keys):
            return 0
        if self.keys.intersection(_wholes(record.section)):
            return 3
        return 2 if record.leads and self.keys.intersection(names(record.section.headings[-1])[:3]) else 1

    def _alike_in_function(self, form: str) -> float:
        """Return how alike the question and one form are, 0 to 1, stop words counted too."""
        ours = self.words.union(self._functional)
        theirs = {*terms.words(form), *terms.functional(form)}
        return sum(map(self._weight, ours & theirs)) / sum(map(self._weight, ours | theirs))

    def _overview(self, record: Record) -> float:
        """Return a factor for sections that introduce what a fragment names, and against those that only lead to others."""
        section = record.section
        if section.level == 2 and len(section.text) < _INTRODUCTION:
            return _BRIEF
        above = frozenset(terms.words(section.headings[-2])) if len(section.headings) > 2 else frozenset()
        begins = " " in section.headings[-1] and record.title.split()[: len(self._in_order)] == self._in_order
        return 1 + _LEADS * (record.leads and self._shared(above) >= 0.9 * self._total) + _BEGINS * begins

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
        if not any(len(word) > 1 for word in self.words) or self._is_of_another_subject(best.section):
            return False
        if terms.is_ours(self.text):
            return True
        if len(self._in_order) <= _SHORT and best.together < _HALF and best.section.asks:  # a user's own Markdown has no forms
            return False
        # A letter left out or swapped makes no other word, as a changed one may: then more words must agree with the guess, or
        # the other word of a fragment.
        ours = self.words & terms.anchors()
        certain = ours if not self._changed else len(self._in_order) <= _FRAGMENT and ours - self._guessed
        trusted = certain or (best.together >= _MOST and len(self.words - self._guessed) > self._changed)
        doubtful = (word for word in self.words if not is_known(word) or (word in self._guessed and not trusted))
        unknown = sum(map(self._weight, doubtful)) / self._total
        if ours:
            return best.coverage >= 0.35 and unknown <= 0.4
        return best.coverage >= 0.45 and unknown <= 0.15

    def _is_of_another_subject(self, best: Section) -> bool:
        """Return whether it names a subject that the best section does not, or beside it nothing of the field."""
        strangers = terms.elsewhere(self.text)
        about = re.findall(r"[\w.]+", " ".join((*best.headings, *best.asks)).lower())
        besides = self.words & terms.anchors() - _EVERYWHERE - set(terms.words(" ".join(strangers)))
        alone = bool(strangers) and not besides and not terms.is_ours(self.text)
        return alone or any(name not in about for name in strangers)


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
    return tuple(dict.fromkeys([*_wholes(section), *names(section.headings[-1])]))


def _wholes(section: Section) -> list[str]:
    errors = [error.lstrip("~^") for error in section.errors]
    return [key(text) for text in (section.headings[-1], section.anchor, *errors, *section.asks)]


def names(heading: str) -> list[str]:
    """Return the names of APIs in a heading: what is in backticks, without arguments and value, and what is dotted.

    A dotted name is also asked for by its end: `torch.cuda.graph(pool=...)` by `cuda.graph` and `graph`.
    """
    found = []
    for span in re.findall(r"`([^`]+)`|((?:\w+\.)+\w+|\w+_\w+)", heading):
        text = key("".join(span))
        whole = re.match(r"-{0,2}[\w.:-]*", text)
        parts = re.split(r"\.|::", whole[0]) if whole else []
        found += [text, ".".join(parts), *(_END + ".".join(parts[start:]) for start in range(1, len(parts)))]
    return [name for name in dict.fromkeys(found) if name]


def subject(section: Section) -> str:
    """Return what a heading says that its section is about: the part before a colon or question mark."""
    return re.split(r"[:?] ", section.headings[-1])[0]
