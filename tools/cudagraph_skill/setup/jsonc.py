"""Read JSON with comments and trailing commas, and where each member of an object stands in the text."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")
_DEEPEST = 200  # levels; no configuration has so many, and Python's stack has room for them


class BrokenError(ValueError):
    """What is wrong with a text, and in which line."""


class Value(NamedTuple):
    """Hold a value, its place in the text, and the members of an object."""

    start: int
    end: int
    content: Any
    members: tuple[Member, ...] = ()


class Member(NamedTuple):
    """Hold one member of an object; `start` is that of its key."""

    key: str
    start: int
    value: Value


def read(text: str) -> Value:
    """Return the value of a whole text.

    Raises:
        BrokenError: It is not JSON, with or without comments.
    """
    value = _value(text, skip(text, 0), 0)
    end = skip(text, value.end)
    if end < len(text):
        raise _broken(text, end, "text after the end of the value")
    return value


def skip(text: str, at: int) -> int:
    """Return where space and comments end."""
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _broken(text: str, at: int, why: str) -> BrokenError:
    return BrokenError(f"line {text.count(chr(10), 0, at) + 1}: {why}")


def _value(text: str, at: int, depth: int) -> Value:
    if depth > _DEEPEST:
        raise _broken(text, at, f"more than {_DEEPEST} levels")
    if text.startswith("{", at):
        return _object(text, at, depth)
    if text.startswith("[", at):
        return _array(text, at, depth)
    match = _STRING.match(text, at) or _SCALAR.match(text, at)
    if match is None:
        raise _broken(text, at, "a value is missing" if at < len(text) else "the text ends too early")
    try:
        return Value(at, match.end(), json.loads(match[0]))
    except ValueError as error:
        raise _broken(text, at, str(error).partition(":")[0]) from None


def _object(text: str, at: int, depth: int) -> Value:
    members: list[Member] = []
    place = skip(text, at + 1)
    while not text.startswith("}", place):
        key = _STRING.match(text, place)
        if key is None:
            raise _broken(text, place, "a key or `}` is missing")
        colon = skip(text, key.end())
        if not text.startswith(":", colon):
            raise _broken(text, colon, "`:` is missing after a key")
        value = _value(text, skip(text, colon + 1), depth + 1)
        members.append(Member(json.loads(key[0]), place, value))
        place = _after(text, value.end, "}")
    return Value(at, place + 1, {member.key: member.value.content for member in members}, tuple(members))


def _array(text: str, at: int, depth: int) -> Value:
    items = []
    place = skip(text, at + 1)
    while not text.startswith("]", place):
        value = _value(text, place, depth + 1)
        items.append(value.content)
        place = _after(text, value.end, "]")
    return Value(at, place + 1, items)


def _after(text: str, end: int, closing: str) -> int:
    """Return where the next member or the closing bracket begins."""
    place = skip(text, end)
    if text.startswith(",", place):
        return skip(text, place + 1)
    if not text.startswith(closing, place):
        raise _broken(text, place, f"`,` or `{closing}` is missing")
    return place
