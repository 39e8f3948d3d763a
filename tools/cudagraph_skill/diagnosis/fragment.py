"""Find the messages that a fragment was typed from: "unjoined work" stands in one, though no message stands in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_skill.corpus import terms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_skill.diagnosis.entries import Entry

_WORDS = 6  # a longer text is a description, whose words are compared with those of causes
_LETTERS = 6  # of a single word: a shorter one stands in too many messages by chance
_GENERAL = 2.0  # what an entry with CUDA's number counts beside those of special cases of its message
_MANY, _FEW = 5, 2  # entries with such messages at most, where nothing else says that these words are about graphs; of one word


def entries_with(text: str, entries: Iterable[Entry], ours: bool) -> dict[str, float]:
    """Return the entries whose message has all of a fragment, by id, with the share of it that was typed.

    `text` is in lower case with single blanks; `ours` says that it speaks of CUDA graphs, where otherwise the fragment must
    stand in few messages, and in none that programs without graphs raise too. Messages of several
    parts count only where no other has the fragment.
    """
    words = text.split()
    telling = [word for word in words if word not in terms.STOP_WORDS]
    if len(words) > _WORDS or not telling or (len(telling) == 1 and len(telling[0]) < _LETTERS) or terms.strangers(text):
        return {}
    text = telling[0] if len(telling) == 1 else text
    within = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
    single: dict[str, float] = {}
    several: dict[str, float] = {}
    for entry in entries:
        for phrase in entry.phrases:
            found = single if len(phrase.all) == len(phrase.all[0]) == 1 else several
            there = any(within.search(part) for parts in phrase.all for part in parts)
            if there and phrase.kind == "~" and not ours:
                return {}
            if there and phrase.kind != "~":
                share = len(text) / sum(len(part) for parts in phrase.all for part in parts)
                found[entry.id] = max(found.get(entry.id, 0.0), share * (_GENERAL if entry.codes else 1))
    chosen = single or several
    if len(chosen) > (_FEW if len(telling) == 1 else len(chosen) if ours else _MANY):
        return {}
    return {name: chosen[name] for name in sorted(chosen, key=lambda name: -chosen[name])[:_MANY]}
