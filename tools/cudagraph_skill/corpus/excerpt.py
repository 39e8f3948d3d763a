"""Cut sections to passages that fit a budget: whole where they fit, else the opening and the blocks nearest to the question."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from cudagraph_skill.corpus import terms

if TYPE_CHECKING:
    from cudagraph_skill.corpus.section import Section

GAP = "[…]"
FIRST = 3.0  # with 1.5, one first answer in thirty lacked what was asked for; 4 gave the same as 3


def fit(sections: list[Section], asked: frozenset[str], budget: int) -> list[tuple[str, bool]]:
    """Return for each section its text, cut so that all together have about `budget` characters, and whether it is whole.

    What a short section leaves goes to the others; the first one, the best answer, gets FIRST times as much as each other.
    """
    shares = _shares([len(section.text) for section in sections], budget)
    return [_cut(section.text, asked, share) for section, share in zip(sections, shares, strict=True)]


def _shares(sizes: list[int], budget: int) -> list[int]:
    shares = [0] * len(sizes)
    open_ones = list(range(len(sizes)))
    while open_ones:
        weights = {place: FIRST if place == 0 else 1 for place in open_ones}
        unit = max(0, budget - sum(shares)) / sum(weights.values())
        fitting = [place for place in open_ones if sizes[place] <= unit * weights[place]]
        if not fitting:
            for place in open_ones:
                shares[place] = int(unit * weights[place])
            return shares
        for place in fitting:
            shares[place] = sizes[place]
            open_ones.remove(place)
    return shares


def _cut(text: str, asked: frozenset[str], share: int) -> tuple[str, bool]:
    if len(text) <= share:
        return text, True
    blocks = _blocks(text)
    chosen = {0}  # the opening holds the answer
    used = len(blocks[0])
    for place in sorted(range(1, len(blocks)), key=lambda place: -_worth(blocks[place], asked)):
        if used + len(blocks[place]) <= share:
            chosen.add(place)
            used += len(blocks[place])
    lines = []
    for place, block in enumerate(blocks):
        if place in chosen:
            lines.append(block)
        elif not lines or lines[-1] != GAP:
            lines.append(GAP)
    return "\n".join(lines), False


def _worth(block: str, asked: frozenset[str]) -> float:
    """Return how many question words a block has, per square root of its length: a long fence must earn its place."""
    shared = len(asked.intersection(terms.words(block)))
    return (shared + 0.2) / math.sqrt(len(block) + 40)


def _blocks(text: str) -> list[str]:
    """Return paragraphs, list items, table rows and whole fences, in order."""
    blocks: list[str] = []
    fence = ""
    for line in text.splitlines():
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence:
            blocks[-1] += "\n" + line
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
            blocks.append(line)
        elif blocks and _continues(line, blocks[-1]):
            blocks[-1] += "\n" + line
        else:
            blocks.append(line)
    return [block for block in blocks if block.strip()] or [text]


def _continues(line: str, block: str) -> bool:
    """Return whether a line outside fences belongs to the block above it."""
    if "-" in line and re.fullmatch(r"[|\-: ]+", line):  # the rule under a table's head
        return True
    starts_item = re.match(r"\s*([-*+]|\d+\.)\s|\|", line)
    return bool(line.strip() and block) and not starts_item and not block.endswith("```")
