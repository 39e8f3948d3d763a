"""Split a shell script into words and operators at their offsets, without expanding anything."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEREDOC = re.compile(r"<<-?[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([\w.-]+))")
_OPERATORS = (";;&", ";;", ";&", "&&", "||", "|&", "&>", ">>", "<<<", "<(", ">(", "((", "))")


class Token(NamedTuple):
    """A word, an operator, or the body of a here-document.

    Attributes:
        kind: "word", "operator" or "heredoc".
    """

    start: int
    end: int
    kind: str = "word"


def tokens(text: str, start: int, end: int) -> list[Token]:
    """Return the tokens between two offsets; a line break is an operator."""
    found: list[Token] = []
    waiting: list[str] = []  # ends of here-documents that begin on the next line
    at = start
    while at < end:
        char = text[at]
        if text.startswith(("\\\n", "\\\r\n"), at):
            at += 3 if text[at + 1] == "\r" else 2
        elif char in " \t\r":
            at += 1
        elif char == "#":
            at = min(line_end(text, at), end)
        elif char == "\n":
            found.append(Token(at, at + 1, "operator"))
            at += 1
            for name in waiting:
                body_end, after = _heredoc_end(text, at, end, name)
                found.append(Token(at, body_end, "heredoc"))
                at = after
            waiting = []
        elif (match := _HEREDOC.match(text, at, end)) and not text.startswith("<<<", at):
            waiting.append(match[1] or match[2] or match[3])
            at = match.end()
        elif char in ";&|()<>":
            operator = next((one for one in _OPERATORS if text.startswith(one, at)), char)
            found.append(Token(at, at + len(operator), "operator"))
            at += len(operator)
        else:
            stop = min(word_end(text, at), end)
            found.append(Token(at, stop))
            at = stop
    return found


def line_end(text: str, at: int) -> int:
    """Return the offset of the line break at or behind an offset."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _heredoc_end(text: str, at: int, end: int, name: str) -> tuple[int, int]:
    """Return where the body of a here-document ends, and where the script goes on."""
    match = re.compile(rf"^[ \t]*{re.escape(name)}[ \t\r]*(?:\n|\Z)", re.MULTILINE).search(text, at, end)
    return (match.start(), match.end()) if match else (end, end)


def word_end(text: str, at: int) -> int:
    """Return the end of the word at an offset; an array after `=` is one word."""
    start = at
    while at < len(text):
        char = text[at]
        if char == "\\":
            if text[at + 1 : at + 2] in ("\n", "\r"):
                break
            at += 2
        elif char in "'\"":
            at = quote_end(text, at)
        elif text.startswith(("$(", "${"), at):
            at = bracket_end(text, at + 1)
        elif char == "(" and at > start and text[at - 1] == "=":
            at = bracket_end(text, at)
        elif char in " \t\r\n;&|()<>":
            break
        else:
            at += 1
    return max(at, start + 1)


def quote_end(text: str, at: int) -> int:
    """Return the offset behind the quote that closes the one at an offset."""
    quote = text[at]
    at += 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote == '"' else 1
    return min(at + 1, len(text))


def bracket_end(text: str, at: int) -> int:
    """Return the offset behind the bracket that closes the one at an offset."""
    opening = text[at]
    closing = {"(": ")", "{": "}"}[opening]
    depth = 0
    while at < len(text):
        char = text[at]
        if char in "'\"":
            at = quote_end(text, at)
            continue
        if char == "#" and opening == "(" and text[at - 1] in " \t\n":
            at = line_end(text, at)
            continue
        depth += (char == opening) - (char == closing)
        at += 1
        if depth == 0:
            break
    return at
