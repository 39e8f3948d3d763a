"""Split a shell script into commands with their words expanded, without running anything.

What is followed: quotes, comments, continued lines, variables and arrays with `=` and `+=`, `export`, `${NAME:-default}`.
What is not: command substitution, arithmetic, parameters such as `$1`, functions, loops over values. Their words are unread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(\[[@*]\])?(?::?-([^{}]*))?\})")
_EXPORTING = ("export", "declare", "readonly", "local", "typeset", "env")
_OPENING = ("if", "while", "until", "case", "for")
_CLOSING = ("fi", "done", "esac")
_BETWEEN = ("then", "else", "elif", "do", "{", "}", "!", "time")
_DEEPEST = 20  # variables that name variables
_MOST_WORDS = 50_000


class Word(NamedTuple):
    """One word after expansion, with the place in the text that it comes from.

    Attributes:
        unread: Whether a part of it is not known.
    """

    text: str
    start: int
    end: int
    unread: bool = False


@dataclass
class Command:
    """A command with the variables that are set for it.

    Attributes:
        environment: Exported variables and those written before the command.
    """

    words: list[Word]
    environment: dict[str, Word]


@dataclass
class Script:
    """What a script runs, and what it only defines."""

    commands: list[Command] = field(default_factory=list)
    variables: dict[str, list[Word]] = field(default_factory=dict)
    environment: dict[str, Word] = field(default_factory=dict)
    conditional: list[int] = field(default_factory=list)  # offsets of assignments that run under a condition only


def parse(text: str) -> Script:
    """Return the commands of a script, in order."""
    script = Script()
    depth = 0
    for spans in _statements(text):
        words = [text[start:end] for start, end in spans]
        while words and words[0] in (*_OPENING, *_CLOSING, *_BETWEEN):
            depth += (words[0] in _OPENING) - (words[0] in _CLOSING)
            words = words[1:]
        if words:
            _statement(text, spans[-len(words) :], script, conditional=depth > 0)
    return script


def _statement(text: str, spans: list[tuple[int, int]], script: Script, *, conditional: bool) -> None:
    """Take up one simple command: assignments alone define variables, before a command they are its environment."""
    exporting = text[slice(*spans[0])] in _EXPORTING
    spans = spans[1:] if exporting else spans
    before: dict[str, Word] = {}
    while spans and (match := _ASSIGNMENT.match(text, *spans[0])):
        before[match[1]] = _define(text, match, spans[0][1], script)
        if conditional and "--" in before[match[1]].text:
            script.conditional.append(match.start())
        spans = spans[1:]
    if exporting and all(_is_option_or_name(text[slice(*span)]) for span in spans):
        script.environment |= before | _exported(text, spans, script)
    elif spans:
        words = [word for start, end in spans for word in _expanded(text, start, end, script, 0)]
        script.commands.append(Command(words[:_MOST_WORDS], script.environment | before))


def _define(text: str, match: re.Match[str], end: int, script: Script) -> Word:
    """Define a variable, or add to it, and return its text."""
    name, added = match[1], match[2]
    value = _assigned(text, match.end(), end, script)
    script.variables[name] = [*(script.variables.get(name, []) if added else []), *value]
    joined = " ".join(word.text for word in value)
    return Word(joined, match.start(), end, any(word.unread for word in value))


def _exported(text: str, spans: list[tuple[int, int]], script: Script) -> dict[str, Word]:
    names = {text[slice(*span)]: span for span in spans}
    return {
        name: Word(" ".join(word.text for word in script.variables[name]), *span)
        for name, span in names.items()
        if name in script.variables
    }


def _is_option_or_name(word: str) -> bool:
    return bool(re.fullmatch(r"-\w+|[A-Za-z_]\w*", word))


def _statements(text: str) -> list[list[tuple[int, int]]]:
    """Return the spans of the words of each simple command."""
    statements: list[list[tuple[int, int]]] = [[]]
    at, end = 0, len(text)
    while at < end:
        char = text[at]
        if text.startswith("\\\n", at) or text.startswith("\\\r\n", at):
            at += 3 if text[at + 1] == "\r" else 2
        elif char in " \t\r":
            at += 1
        elif char == "#":
            at = _line_end(text, at)
        elif char in "\n;&|":
            statements.append([])
            at += 1
        elif char in "()<>":
            at += 1
        else:
            stop = _word_end(text, at)
            statements[-1].append((at, stop))
            at = stop
    return [statement for statement in statements if statement]


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _word_end(text: str, at: int) -> int:
    """Return the end of the word at an offset; an array after `=` is one word."""
    start = at
    while at < len(text):
        char = text[at]
        if char == "\\":
            if text[at + 1 : at + 2] in ("\n", "\r"):
                break
            at += 2
        elif char in "'\"":
            at = _quote_end(text, at)
        elif text.startswith(("$(", "${"), at):
            at = _bracket_end(text, at + 1)
        elif char == "(" and at > start and text[at - 1] == "=":
            at = _bracket_end(text, at)
        elif char in " \t\r\n;&|()<>":
            break
        else:
            at += 1
    return max(at, start + 1)


def _quote_end(text: str, at: int) -> int:
    quote = text[at]
    at += 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote == '"' else 1
    return min(at + 1, len(text))


def _bracket_end(text: str, at: int) -> int:
    """Return the offset behind the bracket that closes the one at `at`."""
    opening = text[at]
    closing = {"(": ")", "{": "}"}[opening]
    depth = 0
    while at < len(text):
        char = text[at]
        if char in "'\"":
            at = _quote_end(text, at)
            continue
        if char == "#" and opening == "(" and text[at - 1] in " \t\n":
            at = _line_end(text, at)
            continue
        depth += (char == opening) - (char == closing)
        at += 1
        if depth == 0:
            break
    return at


def _assigned(text: str, start: int, end: int, script: Script) -> list[Word]:
    """Return the words of a value: of an array, or of a text that is split where it is used."""
    if text[start : start + 1] == "(":
        inner = [
            (start + 1 + first, start + 1 + last)
            for statement in _statements(_blanked(text[start + 1 : end - 1]))
            for first, last in statement
        ]
        return [word for first, last in inner for word in _expanded(text, first, last, script, 0)]
    if text[start : start + 1] in ("'", '"') and _quote_end(text, start) == end:
        return [
            word
            for first, last in _blank_separated(text, start + 1, end - 1)
            for word in _expanded(text, first, last, script, 0)
        ]
    return _expanded(text, start, end, script, 0)


def _blanked(text: str) -> str:
    """Join the lines of an array, keeping every offset."""
    return re.sub(r"[;&|]", " ", text)


def _blank_separated(text: str, start: int, end: int) -> list[tuple[int, int]]:
    return [match.span() for match in re.compile(r"[^\s\\]+(?:\\[^\n][^\s\\]*)*").finditer(text, start, end)]


def _expanded(text: str, start: int, end: int, script: Script, depth: int) -> list[Word]:
    """Return what a word becomes: quotes off, variables replaced by their words at the place where those stand."""
    raw = text[start:end]
    bare = raw.strip('"')
    whole = _VARIABLE.fullmatch(bare)
    if whole and depth < _DEEPEST:
        name = whole[1] or whole[2]
        if name in script.variables:
            return script.variables[name]
        if whole[4] is not None:
            return [Word(part, start, end) for part in whole[4].strip("\"'").split()]
        return [Word(bare, start, end, unread=True)]
    if raw[:1] in ("'", '"') and _quote_end(text, start) == end and any(char.isspace() for char in raw):
        return [Word(text[first:last], first, last) for first, last in _blank_separated(text, start + 1, end - 1)]
    if "$" not in raw or raw.startswith("'"):
        return [Word(_unquoted(raw), start, end)]
    filled = _VARIABLE.sub(lambda match: _text_of(match, script), raw)
    return [Word(_unquoted(filled), start, end, unread="$" in filled)]


def _text_of(match: re.Match[str], script: Script) -> str:
    words = script.variables.get(match[1] or match[2])
    if words is not None and not any(word.unread for word in words):
        return " ".join(word.text for word in words)
    return match[4] if words is None and match[4] is not None else match[0]


def _unquoted(raw: str) -> str:
    return re.sub(r"\\(.)|['\"]", lambda match: match[1] or "", raw)
