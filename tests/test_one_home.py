"""A fact has one home: few sections say what another one says.

Two sections are alike by the cosine of their TF-IDF vectors. Terms are words in lower case and pairs of neighbouring words,
with headings and code, without targets of links. A term weighs its count times the logarithm of the number of sections over the
number that have it. Terms of one section alone are shared with none, and those of more than `COMMON` are the field's
vocabulary: neither counts. A pair where one section only points to the other is not reported.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from cudagraph_skill.corpus.load import is_moved
from cudagraph_skill.corpus.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterable

ALIKE = 0.45
COMMON = 60  # sections
POINTER = 320  # characters of a section that gives a sentence and a link
PAIRS = 25  # found today: lower it with every pair that is merged


def _terms(section: Section) -> Counter[str]:
    words = re.findall(r"\w+", re.sub(r"\]\([^)\s]*\)", "]", section.markdown).lower())
    return Counter(words) + Counter(f"{first} {second}" for first, second in pairwise(words))


def _vectors(sections: Iterable[Section]) -> list[dict[str, float]]:
    counts = [_terms(section) for section in sections]
    spread = Counter(term for terms in counts for term in terms)
    vectors = []
    for terms in counts:
        weights = {
            term: count * math.log(len(counts) / spread[term]) for term, count in terms.items() if 1 < spread[term] <= COMMON
        }
        length = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
        vectors.append({term: weight / length for term, weight in weights.items()})
    return vectors


def _points_to(section: Section, other: Section) -> bool:
    return len(section.text) <= POINTER and f"#{other.anchor})" in section.text


def alike(sections: list[Section]) -> list[tuple[float, str, str]]:
    """Return the pairs of sections above `ALIKE`, the most similar first."""
    having: dict[str, list[tuple[int, float]]] = defaultdict(list)
    pairs = []
    for number, vector in enumerate(_vectors(sections)):
        cosines: dict[int, float] = defaultdict(float)
        for term, weight in vector.items():
            for other, others_weight in having[term]:
                cosines[other] += weight * others_weight
            having[term].append((number, weight))
        pairs += [(cosine, sections[other], sections[number]) for other, cosine in cosines.items() if cosine > ALIKE]
    said_twice = [pair for pair in pairs if not _points_to(pair[1], pair[2]) and not _points_to(pair[2], pair[1])]
    return sorted(((round(cosine, 2), one.ref, two.ref) for cosine, one, two in said_twice), reverse=True)


def _section(name: str, text: str) -> Section:
    return Section(f"{name}.md", name, (name,), 2, 1, 1, text, (), (), ())


def test_a_copied_section_is_found_and_a_pointer_to_it_is_not() -> None:
    fact = "call fill on the tensor that holds the rate after each replay of the graph"
    others = [_section(f"other-{number}", f"what section {number} says is another matter") for number in range(9)]
    copy = _section("two", f"Do this: {fact}.")
    pointer = _section("two", f"Do this: {fact}; see [one](one.md#one).")
    for second, found in ((copy, True), (pointer, False)):
        pairs = [pair[1:] for pair in alike([_section("one", fact), second, *others])]
        assert (("one.md#one", "two.md#two") in pairs) == found


def test_few_sections_say_what_another_one_says(sections: list[Section]) -> None:
    read = [section for section in sections if section.path.startswith("references/") and section.level > 1]
    pairs = alike([section for section in read if section.text and not is_moved(section)])
    assert len(pairs) <= PAIRS, pairs[:20]
