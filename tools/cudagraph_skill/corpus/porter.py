"""Stem an English word as Porter's algorithm does, in the variant that Whoosh has; a test compares the two.

The measure of a stem is the number of times that vowels are followed by consonants in it: 0 in `tree`, 1 in `replay`.
"""

from __future__ import annotations

import re

_CONSONANTS, _VOWELS = "[^aeiouy]+", "[aeiou]+"
_STEP = _VOWELS + _CONSONANTS
_ABOVE_0 = re.compile(f"(?:{_CONSONANTS})?{_STEP}").match
_ABOVE_1 = re.compile(f"(?:{_CONSONANTS})?{_STEP}{_STEP}").match
_EXACTLY_1 = re.compile(f"(?:{_CONSONANTS})?{_STEP}(?:{_VOWELS})?").fullmatch
_HAS_VOWEL = re.compile(f"(?:{_CONSONANTS})?[aeiouy]").match
_IS_SHORT = re.compile(f"{_CONSONANTS}[aeiouy][^aeiouwxy]").fullmatch
_DOUBLED = re.compile(r"([^aeiouylsz])\1$").search

_NOUNS = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_ADJECTIVES = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_ENDINGS = "al ance ence er ic able ible ant ement ment ent ou ism ate iti ous ive ize".split()


def _splitter(suffixes: list[str]) -> re.Pattern[str]:
    """Return a pattern for a word's beginning, of one letter at least, and the longest of `suffixes` at its end."""
    return re.compile(f"(.+?)({'|'.join(suffixes)})")


_NOUN, _ADJECTIVE, _ENDING = _splitter([*_NOUNS]), _splitter([*_ADJECTIVES]), _splitter(_ENDINGS)


def stem(word: str) -> str:
    """Return the stem of a word in lower case."""
    if len(word) < 3:
        return word
    if word[0] == "y":  # a consonant there
        return "y" + _stem("Y" + word[1:])[1:]
    return _stem(word)


def _stem(word: str) -> str:
    word = _without_past(_without_plural(word))
    if word.endswith("y") and _HAS_VOWEL(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, _NOUN, _NOUNS)
    word = _replaced(word, _ADJECTIVE, _ADJECTIVES)
    word = _without_ending(word)
    if word.endswith("e") and len(word) > 1:
        rest = word[:-1]
        if _ABOVE_1(rest) or (_EXACTLY_1(rest) and not _IS_SHORT(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _ABOVE_1(word) else word


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and word[-2] != "s" else word


def _without_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _ABOVE_0(word[:-3]) else word
    rest = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
    if not _HAS_VOWEL(rest):
        return word
    if len(rest) == 2:  # Porter looks at the end of any word here, Whoosh at two letters: `logged` keeps its `gg`
        return rest + "e" if rest in ("at", "iz") else rest[:-1] if _DOUBLED(rest) else rest
    return rest + "e" if _IS_SHORT(rest) else rest


def _replaced(word: str, splitter: re.Pattern[str], suffixes: dict[str, str]) -> str:
    match = splitter.fullmatch(word)
    return match[1] + suffixes[match[2]] if match and _ABOVE_0(match[1]) else word


def _without_ending(word: str) -> str:
    if match := _ENDING.fullmatch(word):
        return match[1] if _ABOVE_1(match[1]) else word
    rest = word[:-3]
    return rest if word.endswith("ion") and rest[1:].endswith(("s", "t")) and _ABOVE_1(rest) else word
