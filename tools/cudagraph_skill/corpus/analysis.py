"""Analyse sections into what an index holds: records to show and to rank, and postings by term.

A posting lists the sections that have a term, each with the term's BM25 impact on it; the inverse document frequency is left
to the question. Words and whole identifiers share one list for each section, in which heading, question forms and error texts
count more than the body: BM25F saturates each field by itself, which lets a word in a heading outweigh everything else.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.corpus import load, rank, terms
from cudagraph_skill.corpus.store import NOWHERE, bucket

if TYPE_CHECKING:
    from cudagraph_skill.corpus.section import Section
    from cudagraph_skill.corpus.store import Posting

_B = 0.6  # BM25: how much length counts against a section
_FORMS = 12  # question forms of a cause that are indexed: it has more, for logs, and they would drown all other sections
_NAMED = 8  # letters of the shortest name whose spelling is repaired


class Content(NamedTuple):
    """What an index holds, as a store in memory; `spelling` are all its words, one a line."""

    records: list[str]
    postings: dict[str, Posting]
    spelling: str

    def __len__(self) -> int:
        """Return the number of sections."""
        return len(self.records)

    def frequency(self, term: str) -> int:
        """Return how many sections have a term."""
        return len(self.posting(term)[0])

    def posting(self, term: str) -> Posting:
        """Return the sections that have a term."""
        return self.postings.get(term, NOWHERE)

    def record(self, number: int) -> str:
        """Return what `rank.record` reads."""
        return self.records[number]


def content(sections: list[Section]) -> Content:
    """Analyse sections into the content of an index."""
    analysed = [_analysed(_shortened(section)) for section in sections]
    usual = sum(counts.total() for _, _, counts in analysed) / max(1, len(analysed))
    records: list[str] = []
    postings: dict[str, Posting] = {}
    for section, texts, counts in analysed:
        number = len(records)
        length = rank.K1 * (1 - _B + _B * counts.total() / usual)
        names = rank.keys(section)
        leads = section.level > 2 and bool(sections[number - 1].level == 2 and sections[number - 1].path == section.path)
        records.append(json.dumps([section, *texts, names, length, leads]))
        if section.text:  # a heading alone is for the table of contents
            said = {} if load.is_moved(section) else counts  # an old id is found by itself, not by its words
            impacts = {term: count * (rank.K1 + 1) / (count + length) for term, count in said.items()}
            impacts.update((bucket(name), 1.0) for name in names)
            for term, impact in impacts.items():
                numbers, weights = postings.get(term) or postings.setdefault(term, (array("I"), array("f")))
                numbers.append(number)
                weights.append(impact)
    return Content(records, postings, _spelling(sections))


def _shortened(section: Section) -> Section:
    return section._replace(asks=section.asks[:_FORMS], tells=()) if load.is_cause(section) else section


def _analysed(section: Section) -> tuple[Section, tuple[str, list[str], str], Counter[str]]:
    """Return the words of the heading, of each question form and of the rest, and how often the section has each term."""
    counts: Counter[str] = Counter()
    glued: list[str] = []  # `staticcache` of StaticCache

    def words(text: str, times: int) -> str:
        in_order, names = terms.analysed(text)
        counts.update((in_order + names) * times)
        glued.extend(name for name in names if name[0] != "=")
        return " ".join(in_order)

    title = words(section.headings[-1], 3)
    asks = [words(form, 2) for form in section.asks]
    asks.append(" ".join(terms.words(rank.subject(section))))  # a heading asks for what it is about
    counts.update(terms.functional(" ".join((section.headings[-1], *section.asks))))
    rest = [words(section.text, 1), *(words(text, 1) for text in section.headings[:-1])]
    rest += (words(text, 2) for text in section.errors)
    return section, (title, asks, " | ".join([*rest, *glued])), counts


def _spelling(sections: list[Section]) -> str:
    """Return every word, and every name with a dot or underscore that is long enough to tell a slip from another name."""
    texts = [" ".join((section.text, *section.headings, *section.asks[:_FORMS])).lower() for section in sections]
    names = {name for text in texts for name in re.findall(r"[a-z]\w*(?:[._]\w+)+", text) if len(name) >= _NAMED}
    return "\n".join(sorted(names.union(word for text in texts for word in re.findall(r"[a-z]{4,}", text))))
