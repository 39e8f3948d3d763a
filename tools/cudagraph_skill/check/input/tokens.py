"""Find comments and strings in Python source of any version, however broken.

Unlike `tokenize` this reads f-strings of Python 3.12 and t-strings of 3.14 on 3.11, and never fails. Standard library only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NESTING = 20  # strings in fields of strings in fields; deeper ones are taken as they stand
_OPENS = re.compile(r"""#[^\n]*|((?<!\w)[bBuUrRfFtT]{1,2})?(\"\"\"|'''|"|')""")
_IN_FIELD = re.compile(r"""#[^\n]*|((?<!\w)[bBuUrRfFtT]{1,2})?(\"\"\"|'''|"|')|!=|[=<>]=|[()\[\]{}!:]""")
_PLAIN = {
    '"""': re.compile(r'\\.|"""', re.DOTALL),
    "'''": re.compile(r"\\.|'''", re.DOTALL),
    '"': re.compile(r'\\.|"|\n', re.DOTALL),
    "'": re.compile(r"\\.|'|\n", re.DOTALL),
}
_FORMAT = {
    quote: re.compile(rf"\\N\{{[^}}\n]*\}}|\\[^{{}}]|\{{\{{|\{{|{quote}" + (r"|\n" if len(quote) == 1 else ""), re.DOTALL)
    for quote in _PLAIN
}
_SPEC = re.compile(r"[{}]|\n")


class Field(NamedTuple):
    """Describe a `{…}` of an f-string: offsets of its braces, the end of the expression, its strings and comments."""

    opens: int
    ends: int
    closes: int
    strings: tuple[Piece, ...]


class Piece(NamedTuple):
    """Describe a comment or a string by its offsets; `prefix` is lower case, `quote` is empty for a comment."""

    start: int
    end: int
    prefix: str
    quote: str
    fields: tuple[Field, ...] = ()


def pieces(text: str) -> list[Piece]:
    """Return all comments and strings that are not inside other strings, in order."""
    ordered, at = [], 0
    while match := _OPENS.search(text, at):
        piece = _piece(text, match, 0)
        ordered.append(piece)
        at = piece.end
    return ordered


def bare(text: str, strings: list[Piece]) -> str:
    """Blank comments and strings; every other character, and every newline, keeps its place."""
    parts, at = [], 0
    for piece in strings:
        parts += [text[at : piece.start], blank(text[piece.start : piece.end])]
        at = piece.end
    return "".join([*parts, text[at:]])


def blank(text: str) -> str:
    """Return as many spaces as characters, with newlines kept."""
    return "\n".join(" " * len(line) for line in text.split("\n"))


def _piece(text: str, match: re.Match[str], nesting: int) -> Piece:
    prefix, quote = (match[1] or "").lower(), match[2] or ""
    if not quote:
        return Piece(match.start(), match.end(), "", "")
    if nesting < _NESTING and ("f" in prefix or "t" in prefix):
        end, fields = _format(text, match.end(), prefix, quote, nesting)
        return Piece(match.start(), end, prefix, quote, tuple(fields))
    return Piece(match.start(), _plain_end(text, match.end(), quote), prefix, quote)


def _plain_end(text: str, at: int, quote: str) -> int:
    while match := _PLAIN[quote].search(text, at):
        if match[0] == quote:
            return match.end()
        if match[0] == "\n":  # not closed
            return match.start()
        at = match.end()
    return len(text)


def _format(text: str, at: int, prefix: str, quote: str, nesting: int) -> tuple[int, list[Field]]:
    fields: list[Field] = []
    while match := _FORMAT[quote].search(text, at):
        at = match.end()
        if match[0] == quote:
            return at, fields
        if match[0] == "\n":
            return match.start(), fields
        if match[0] == "{" or ("r" in prefix and match[0].startswith("\\N{")):
            opens = text.index("{", match.start())
            at = _field(text, opens, fields, nesting)
    return len(text), fields


def _field(text: str, opens: int, fields: list[Field], nesting: int) -> int:
    """Read one `{…}`, add it and those in its format to `fields`, and return the offset behind it."""
    strings: list[Piece] = []
    at, depth = opens + 1, 0
    while match := _IN_FIELD.search(text, at):
        at, mark = match.end(), match[0]
        if match[2] or mark[0] == "#":
            strings.append(_piece(text, match, nesting + 1))
            at = strings[-1].end
        elif mark in "([{":
            depth += 1
        elif mark in ")]}" and depth:
            depth -= 1
        elif mark in "}!:" and not depth:
            place = len(fields)
            closes = match.start() if mark == "}" else _spec_end(text, at, fields, nesting)
            fields.insert(place, Field(opens, match.start(), closes, tuple(strings)))
            return closes + 1
    return len(text)


def _spec_end(text: str, at: int, fields: list[Field], nesting: int) -> int:
    """Return the offset of the brace that ends a conversion or format; add fields inside it to `fields`."""
    while match := _SPEC.search(text, at):
        if match[0] == "}":
            return match.start()
        if match[0] == "{" and nesting < _NESTING:
            nesting += 1
            at = _field(text, match.start(), fields, nesting)
        else:
            at = match.end()
    return len(text)
