"""Does the description in SKILL.md bring the skill up for the right questions, as far as words alone can tell?

    python benchmarks/triggers.py             the figures; --misses names the questions that went wrong
    python benchmarks/triggers.py --check     exit 1 if one is worse than in floors.yaml

An assistant's model chooses among the descriptions of all its skills. Here words choose, among SKILL.md's description and
those of `others` in triggers.yaml: a skill is brought up if its BM25 score is at least half of the best, and its words cover
a quarter of the question, weighted by rarity. What stands after "Not for" is not indexed, and counts against a description
where a question has it. The near questions are asked with the best other skill taken away, since not everybody has the one
that is right for them. This knows no meaning: it tells whether the words that people use are there, not what a model does.
The second figure asks `skill search` the same questions: does it answer ours, and refuse theirs where nothing in the
references is about them?
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "tools")]

from cudagraph_skill.corpus.index import open_index  # noqa: E402
from cudagraph_skill.corpus.porter import stem  # noqa: E402
from cudagraph_skill.paths import skill_root  # noqa: E402

_K1, _B = 1.2, 0.75  # BM25's usual numbers
_SHARE = 0.5  # of the best score: an assistant may bring up more than one skill
_COVERED = 0.25  # of what the question says: below it, no skill is brought up
_STOP = frozenset(
    "a an and are as at be because before by can do does each every for from gets give gives have how i in into is it its me "
    "my no not of on one or our out over s same should so than that the there this to up use used using we what when where "
    "which while with write you your".split()
)


def load() -> dict[str, Any]:
    """Return the questions and the other skills."""
    data: dict[str, Any] = yaml.safe_load((HERE / "triggers.yaml").read_text(encoding="utf-8"))
    return data


def description() -> str:
    """Return the description that SKILL.md gives to assistants."""
    front: dict[str, str] = yaml.safe_load((ROOT / "SKILL.md").read_text(encoding="utf-8").split("---\n")[1])
    return front["description"]


def terms(text: str) -> list[str]:
    """Return the stems of a text's words; an identifier counts whole and by its parts, `cudagraphs` as its two words."""
    text = re.sub(r"([a-z])([A-Z])", r"\1_\2", text).lower()
    found = []
    for token in re.findall(r"[a-z0-9_]+(?:\.[a-z_]\w*)*", re.sub(r"cuda[ _-]?graphs?", "cuda_graph", text)):
        parts = [part for part in re.split(r"[._]", token) if part]
        found += [token] if len(parts) > 1 else []
        found += [stem(part) for part in parts if part not in _STOP]
    return found


class Shelf:
    """The descriptions of the skills that an assistant has."""

    def __init__(self, skills: dict[str, str]) -> None:
        divided = {name: re.split(r"\bNot for\b", text, maxsplit=1) for name, text in skills.items()}
        self.words = {name: Counter(terms(parts[0])) for name, parts in divided.items()}
        self.refused = {name: set(terms(" ".join(parts[1:]))) - set(self.words[name]) for name, parts in divided.items()}
        self.frequency = Counter(term for words in self.words.values() for term in words)
        self.mean = sum(words.total() for words in self.words.values()) / len(self.words)

    def brought_up(self, name: str, question: str, alone: bool = False) -> bool:
        """Return whether a skill is brought up; `alone` takes the best other skill away first, since not everybody has it."""
        asked = set(terms(question))
        scores = {each: self._score(each, asked) for each in self.words}
        if alone:
            del scores[max(scores.keys() - {name}, key=lambda each: scores[each])]
        return scores[name] >= max(scores.values()) * _SHARE and self._covered(name, asked) >= _COVERED

    def _covered(self, name: str, asked: set[str]) -> float:
        """Return the share of a question that a description has the words of, by their rarity."""
        known, refused = asked & set(self.words[name]), asked & self.refused[name]
        return (sum(map(self._rarity, known)) - sum(map(self._rarity, refused))) / sum(map(self._rarity, asked))

    def _rarity(self, term: str) -> float:
        count = self.frequency[term]
        return math.log(1 + (len(self.words) - count + 0.5) / (count + 0.5))

    def _score(self, name: str, asked: set[str]) -> float:
        words = self.words[name]
        long = 1 - _B + _B * words.total() / self.mean
        gained = sum(self._rarity(term) * words[term] * (_K1 + 1) / (words[term] + _K1 * long) for term in asked & set(words))
        return gained - sum(self._rarity(term) for term in asked & self.refused[name])


def chosen(text: str, data: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the questions of ours that do not bring up a skill with this description, and those of theirs that do."""
    shelf = Shelf({"cuda-graphs": text, **{skill["name"]: skill["description"] for skill in data["others"]}})
    ours = [row["question"] for row in data["ours"]]
    theirs = [row["question"] for row in data["theirs"]]
    return (
        [question for question in ours if not shelf.brought_up("cuda-graphs", question)],
        [question for question in theirs if shelf.brought_up("cuda-graphs", question, alone=True)],
    )


def searched(data: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the questions of ours that `skill search` refuses, and those of theirs that it answers where it should refuse."""
    index = open_index(skill_root())
    return (
        [row["question"] for row in data["ours"] if not index.search(row["question"], 1).hits],
        [row["question"] for row in data["theirs"] if row["search"] == "refuse" and index.search(row["question"], 1).hits],
    )


def main() -> int:
    """Print the figures, or compare them with their floors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--misses", action="store_true")
    args = parser.parse_args()
    data = load()
    silent, false = chosen(description(), data)
    refused, answered = searched(data)
    refusable = sum(row["search"] == "refuse" for row in data["theirs"])
    of = len(data["ours"])
    found = {
        "brought up": of - len(silent),
        "left alone": len(data["theirs"]) - len(false),
        "answered": of - len(refused),
        "refused": refusable - len(answered),
    }
    near = len(data["theirs"])
    up, alone, near = found["brought up"], found["left alone"], len(data["theirs"])
    print(f"description: brought up for {up} of {of}, left alone by {alone} of {near} near questions")
    print(f"skill search: answers {found['answered']} of {of}, refuses {found['refused']} of {refusable}")
    if args.misses:
        for why, questions in {"silent": silent, "brought up": false, "refused": refused, "answered": answered}.items():
            print(*(f"{why}: {question}" for question in questions), sep="\n")
    if not args.check:
        return 0
    floors = yaml.safe_load((HERE / "floors.yaml").read_text(encoding="utf-8"))["triggers"]
    below = {name: least for name, least in floors.items() if found[name] < least}
    print(*(f"{name}: {found[name]}, at least {least} is needed" for name, least in below.items()), sep="\n", end="")
    return int(bool(below))


if __name__ == "__main__":
    sys.exit(main())
