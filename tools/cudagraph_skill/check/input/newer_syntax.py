"""Rewrite syntax newer than the interpreter as Python 3.11 has it, keeping lines and, as far as possible, columns.

Type parameters and `type` statements (3.12), quotes, backslashes and line ends in the fields of f-strings (3.12), t-strings and
`except A, B:` (3.14). What is lost is what the checker does not read: type variables, and what strings in f-strings say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_skill.check.input.tokens import bare, blank, pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.check.input.tokens import Field, Piece

_PARAMETERS = re.compile(r"^[ \t]*(?:(?:async[ \t]+)?def|class|type)[ \t]+\w+[ \t]*(?=\[)", re.MULTILINE)
_TYPE = re.compile(r"^([ \t]*)type([ \t]+)(\w+)(?=[ \t\\\n]*(?:\[|=(?!=)))", re.MULTILINE)
_EXCEPT = re.compile(r"^([ \t]*except\*?)[ \t]([^(),:\n]++,[^():\n]*+):", re.MULTILINE)
_TELLS_STRING = re.compile(r"[\\'\"{}\n]")


def older(text: str) -> str:
    """Return `text` as Python 3.11 reads it, line for line; unchanged if nothing in it is newer."""
    parts = pieces(text)
    letters = list(text)
    for piece in parts:
        _lowered(letters, text, piece)
    code = bare(text, parts)
    for match in _TYPE.finditer(code):  # `type X = …` to `X = …`
        start = match.end(1)
        _put(letters, start, match[3].ljust(match.end() - start))
    closing = _closing(code)
    for match in _PARAMETERS.finditer(code):
        _continued(letters, match.end(), closing.get(match.end(), match.end()))
    for match in _EXCEPT.finditer(code):  # `except A, B:` to `except(A, B):`
        letters[match.end(1)] = "("
        letters[match.end() - 1] = "):"
    return "".join(letters)


def _put(letters: list[str], start: int, text: str) -> None:
    letters[start : start + len(text)] = text


def _closing(code: str) -> dict[int, int]:
    """Map each bracket to the offset behind the one that closes it."""
    behind: dict[int, int] = {}
    opened: list[int] = []
    for match in re.finditer(r"[()\[\]{}]", code):
        if match[0] in "([{":
            opened.append(match.start())
        elif opened:
            behind[opened.pop()] = match.end()
    return behind


def _continued(letters: list[str], start: int, end: int) -> None:
    """Return blanks for removed brackets, with line ends joined by backslashes."""
    for place in range(start, end):
        letters[place] = "\\\n" if letters[place] == "\n" else " "


def _lowered(letters: list[str], text: str, piece: Piece) -> None:
    if "t" in piece.prefix:
        _template(letters, text, piece)
        for field in _outer(piece):
            for inner in field.strings:
                _lowered(letters, text, inner)
    elif piece.fields:
        _formatted(letters, text, piece)


def _template(letters: list[str], text: str, piece: Piece) -> None:
    """Return a t-string, or an f-string in a field, as the tuple of its expressions: `t"a {x:>3} b"` is `(     x,    )`."""
    kept = [(field.opens + 1, _expression_end(text, field)) for field in _outer(piece)]
    _put(letters, piece.start, blank(text[piece.start : piece.end]))
    for start, end in kept:
        _put(letters, start, text[start:end])
        _over(letters, end, ",")
    _over(letters, piece.start, "(")
    _over(letters, piece.end - 1, ")")


def _over(letters: list[str], place: int, letter: str) -> None:
    """Overwrite one character, but keep a line end, which an unclosed string may have there."""
    letters[place] = letter + "\n" * (letters[place] == "\n")


def _formatted(letters: list[str], text: str, piece: Piece) -> None:
    """Rewrite an f-string whose fields hold what only Python 3.12 allows."""
    for inner in _strings(piece):
        if not inner.quote:
            _put(letters, inner.start, " " * (inner.end - inner.start))
        elif "t" in inner.prefix or (inner.fields and _clashes(text, piece, inner)):
            _template(letters, text, inner)
        elif not inner.fields and _clashes(text, piece, inner):
            body = text[inner.start + len(inner.prefix) + 1 : inner.end - 1]
            quote = "'" if piece.quote[0] == '"' else '"'
            _put(letters, inner.start, f"{inner.prefix}{quote}{_TELLS_STRING.sub('_', body)}{quote}")
    breaks = text.count("\n", piece.start, piece.end)
    if len(piece.quote) == 1 and breaks and text[piece.end - 1] == piece.quote:  # line ends in a field: they go behind it
        for place in range(piece.start, piece.end):
            letters[place] = " " if letters[place] == "\n" else letters[place]
        column = piece.end - text.rindex("\n", 0, piece.end) - 1
        letters[piece.end - 1] += "\\\n" * breaks + " " * column


def _clashes(text: str, outer: Piece, inner: Piece) -> bool:
    """Return whether Python 3.11 cannot read `inner` in a field of `outer`."""
    raw = text[inner.start : inner.end]
    return (
        outer.quote in raw
        or "\\" in raw
        or any(_clashes(text, inner, nested) for field in inner.fields for nested in field.strings)
    )


def _strings(piece: Piece) -> Iterator[Piece]:
    """Return strings and comments in the fields of a string, those of nested f-strings after them."""
    for field in piece.fields:
        for inner in field.strings:
            yield inner
            yield from _strings(inner)


def _outer(piece: Piece) -> list[Field]:
    """Return the fields that are not in the format of another field."""
    outer: list[Field] = []
    for field in piece.fields:
        if not outer or field.opens > outer[-1].closes:
            outer.append(field)
    return outer


def _expression_end(text: str, field: Field) -> int:
    """Return the end of the expression of a field; the `=` of `{x=}` is not part of it."""
    expression = text[field.opens + 1 : field.ends].rstrip()
    return field.opens + len(expression) if expression.endswith("=") else field.ends
