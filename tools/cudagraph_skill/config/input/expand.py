"""Expand the words of a shell script: quotes, variables, arrays, defaults such as `${NAME:-attn}`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from cudagraph_skill.config.input.tokens import quote_end, tokens

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_NAME = re.compile(r"\$(?:([A-Za-z_]\w*|[0-9@*#])|\{)")
_BRACED = re.compile(r"([A-Za-z_]\w*|[0-9@*#])(\[[@*]\])?(?:(:?[-=+?])(.*))?", re.DOTALL)
_ASSIGNING = re.compile(r"\$\{([A-Za-z_]\w*):?=(.*)\}", re.DOTALL)
_USE = re.compile(r"\$\{?([A-Za-z_]\w*)|(?<![\w$./-])([A-Za-z_]\w*)\+?=(?!=)")
_HERE = re.compile(r"\$\(\s*cat\s*<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)^\s*\1\s*\)", re.DOTALL | re.MULTILINE)
_DEEPEST = 20  # defaults that hold defaults
_MOST_WORDS = 20_000
_LONGEST = 200_000  # characters of one word


class Word(NamedTuple):
    """One word after expansion, with the place in the text that it comes from.

    Attributes:
        unread: Whether a part of it is not known.
        parts: The words of a quoted text, as `eval` or `bash -c` would split it.
        site: Where the variable is used that the word comes from: the end of that place.
    """

    text: str
    start: int
    end: int
    unread: bool = False
    parts: tuple[Word, ...] = ()
    site: int = 0


class Variable(NamedTuple):
    """The words of a variable; those of a text are split where it is used without quotes."""

    words: list[Word]
    array: bool = False

    @property
    def text(self) -> str:
        """Return its value as a text."""
        return " ".join(word.text for word in self.words)

    @property
    def unread(self) -> bool:
        """Return whether a part is not known."""
        return any(word.unread for word in self.words)


def placeless(value: Variable) -> Variable:
    """Return the value of a variable without the places of its words, which are those of another text."""
    return Variable([_without_place(word) for word in value.words], value.array)


def _without_place(word: Word) -> Word:
    return Word(word.text, 0, 0, word.unread, tuple(map(_without_place, word.parts)))


@dataclass
class Variables:
    """The variables of a script, and its arguments under `@`, `1`, `2`, ….

    Attributes:
        exported: Names that commands get in their environment, with the place of the export.
        own: Names that the script sets before it first reads them: not set, they are empty.
    """

    values: dict[str, Variable] = field(default_factory=dict)
    exported: dict[str, Word] = field(default_factory=dict)
    own: frozenset[str] = frozenset()

    def define(self, name: str, value: Variable, *, added: bool) -> None:
        """Set a variable, or add to it: an array gets elements, a text is continued."""
        old = self.values.get(name)
        if added and old is not None:
            value = Variable([*old.words, *value.words][:_MOST_WORDS], old.array or value.array)
        self.values[name] = value


def assigned(text: str, start: int, end: int, variables: Variables) -> Variable:
    """Return the value of an assignment: of an array, or a text."""
    if text[start : start + 1] == "(":
        inner = [token for token in tokens(text, start + 1, max(start + 1, end - 1)) if token.kind == "word"]
        words = (word for token in inner for word in expanded(text, token.start, token.end, variables))
        return Variable(list(islice(words, _MOST_WORDS)), array=True)
    if match := _HERE.fullmatch(text, start, end):
        return Variable(_split(text, match.start(2), match.end(2), variables))
    if _is_quoted(text, start, end):
        return Variable(_split(text, start + 1, end - 1, variables))
    return Variable(expanded(text, start, end, variables))


def expanded(text: str, start: int, end: int, variables: Variables) -> list[Word]:
    """Return what a word becomes: quotes off, variables replaced by their words at the place where those stand."""
    raw = text[start:end]
    quoted = _is_quoted(text, start, end)
    if quoted and raw[0] == "'":
        return [Word(raw[1:-1], start, end, parts=tuple(_split(text, start + 1, end - 1, variables)))]
    bare = raw[1:-1] if quoted else raw
    if whole := _whole_variable(bare):
        return _of_variable(whole, start, end, variables, quoted=quoted)
    parts = tuple(_split(text, start + 1, end - 1, variables)) if quoted and re.search(r"\s", bare) else ()
    filled, known = _filled(bare, variables, 0)
    return [Word(_unquoted(filled)[:_LONGEST], start, end, not known, parts)]


def _split(text: str, start: int, end: int, variables: Variables) -> list[Word]:
    """Return the words of a quoted text, each with its place."""
    spans = [
        match.span() for match in re.compile(r"(?:[^\s\\'\"]|\\[^\n\r]|'[^']*'|\"[^\"]*\"|['\"])+").finditer(text, start, end)
    ]
    return [word for first, last in spans for word in expanded(text, first, last, variables)][:_MOST_WORDS]


def _is_quoted(text: str, start: int, end: int) -> bool:
    return end - start > 1 and text[start] in "'\"" and quote_end(text, start) == end and text[end - 1] == text[start]


def _whole_variable(raw: str) -> re.Match[str] | None:
    """Return the parts of `$NAME` or `${NAME…}` where it is all of a word."""
    if re.fullmatch(r"\$(?:[A-Za-z_]\w*|[0-9@*#])", raw):
        return _BRACED.fullmatch(raw[1:])
    if raw.startswith("${") and raw.endswith("}") and _closing(raw, 1) == len(raw):
        return _BRACED.fullmatch(raw[2:-1])
    return None


def _closing(raw: str, at: int) -> int:
    """Return the offset behind the brace that closes the one at an offset."""
    depth = 0
    for index in range(at, len(raw)):
        depth += (raw[index] == "{") - (raw[index] == "}")
        if depth == 0:
            return index + 1
    return len(raw) + 1


def own_names(text: str) -> frozenset[str]:
    """Return the names of variables that a script assigns before it first reads them, by the order of its text."""
    found: dict[str, bool] = {}
    for match in _USE.finditer(text):
        found.setdefault(match[1] or match[2], match[2] is not None)
    return frozenset(name for name, assigned_first in found.items() if assigned_first)


def assign_default(raw: str, variables: Variables, start: int, end: int) -> None:
    """Set the variable of `: ${NAME:=default}` where it has no value."""
    match = _ASSIGNING.fullmatch(raw.strip('"'))
    if match and (match[1] not in variables.values or not (variables.values[match[1]].words or ":=" not in raw)):
        filled, known = _filled(match[2].strip("\"'"), variables, 0)
        variables.define(match[1], Variable([Word(_unquoted(filled), start, end, not known)]), added=False)


def _of_variable(match: re.Match[str], start: int, end: int, variables: Variables, *, quoted: bool) -> list[Word]:
    """Return the words of `$NAME` or `${NAME:-default}`; a quoted text stays one word."""
    name = match[1]
    variable = variables.values.get(name)
    operator = "" if (match[3] or "").endswith("?") else match[3] or ""  # `${NAME:?message}` is its value
    if operator.endswith("+"):
        return [] if variable is None else _default(match, start, end, variables)
    if variable is None or (operator.startswith(":") and not variable.text and not variable.unread):
        if operator:
            return _default(match, start, end, variables)
        if variable is not None:
            return [Word("", start, end)] if quoted and not variable.array else []
        if name in variables.own:
            return [Word("", start, end)] if quoted and not match[2] else []
        return [Word(f"${{{match[1]}{match[2] or ''}}}", start, end, unread=True)]
    if not quoted or variable.array or name == "@":
        parts = [part for word in variable.words for part in ((word,) if variable.array and quoted else word.parts or (word,))]
        return [part._replace(site=end) for part in parts]
    if not variable.words:
        return [Word("", start, end)]
    if len(variable.words) == 1:
        return [variable.words[0]._replace(site=end)]
    first, last = variable.words[0], variable.words[-1]
    place = (first.start, last.end) if first.start <= last.end else (start, end)
    return [Word(variable.text, *place, variable.unread, tuple(variable.words))]


def _default(match: re.Match[str], start: int, end: int, variables: Variables) -> list[Word]:
    filled, known = _filled(match[4].strip("\"'"), variables, 0)
    return [Word(part, start, end, not known) for part in _unquoted(filled).split()]


def _filled(raw: str, variables: Variables, depth: int) -> tuple[str, bool]:
    """Return a text with its variables filled in, and whether all were known."""
    parts: list[str] = []
    at, known = 0, True
    while match := _next_variable(raw, at):
        parts.append(raw[at : match.start()])
        stop = match.end() if match[1] else _closing(raw, match.end() - 1)
        braced = _BRACED.fullmatch(match[1] or raw[match.end() : stop - 1])
        text, sure = _text(braced, variables, depth) if braced and depth < _DEEPEST else (raw[match.start() : stop], False)
        parts.append(text if sure else raw[match.start() : stop])
        known = known and sure
        at = stop
    rest = raw[at:]
    return "".join(parts) + rest, known and not re.search(r"(?<!\\)(\$\(|`)", rest)


def _next_variable(raw: str, at: int) -> re.Match[str] | None:
    """Find the next variable that is neither escaped nor in single quotes."""
    while match := _NAME.search(raw, at):
        before = raw[: match.start()]
        inside = before.count("'") % 2 == 1 and before.count('"') % 2 == 0
        if not before.endswith("\\") and not inside:
            return match
        at = match.end()
    return None


def _text(match: re.Match[str], variables: Variables, depth: int) -> tuple[str, bool]:
    variable = variables.values.get(match[1])
    operator = "" if (match[3] or "").endswith("?") else match[3] or ""
    if operator.endswith("+"):
        return ("", True) if variable is None else _filled(match[4].strip("\"'"), variables, depth + 1)
    if variable is not None and (variable.text or not operator.startswith(":")):
        return variable.text, not variable.unread
    if operator:
        return _filled(match[4].strip("\"'"), variables, depth + 1)
    return "", match[1] in variables.own


def _unquoted(raw: str) -> str:
    return re.sub(r"\\(.)|['\"]", lambda match: match[1] or "", raw)
