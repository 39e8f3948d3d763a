"""Text for terminals and shells: escape, shorten and quote, and say how to go on."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def printable(text: str) -> str:
    """Return `text` with nothing in it that steers a terminal; a newline is not printable either."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def shortened(text: str) -> str:
    """Return `text`, or its beginning where it is long."""
    return text if len(text) <= 60 else f"{text[:59]}…"


def quoted(text: str) -> str:
    """Return `text` as one word of a command to paste, with nothing in it that steers a terminal."""
    return shlex.quote(text) if text.isprintable() else f"$'{''.join(map(_escaped, text))}'"


def _escaped(char: str) -> str:
    """Return a text as it is written in `$'…'`."""
    if char.isprintable() and char not in "\\'":
        return char
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))


def operand(file: str) -> str:
    """Return a file as an argument of a command to paste; with a dash in front it would be an option."""
    return quoted(f"./{file}" if file.startswith("-") else file)


def duration(seconds: float) -> str:
    """Return a time with its unit, to three digits."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    milliseconds = seconds * 1e3
    if milliseconds < 1:
        return f"{milliseconds * 1e3:.0f} us"
    return f"{milliseconds:.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"


def as_json(data: dict[str, Any]) -> str:
    """Return `data` as one line of JSON."""
    return json.dumps(data, ensure_ascii=False)


def error_json(sentence: str, fields: Mapping[str, str] | None = None) -> str:
    """Return an error as one line of JSON, for callers that read JSON; `fields` come before it."""
    return as_json({**(fields or {}), "error": sentence})


class Steps(NamedTuple):
    """How the one who asked goes on.

    `read` a reference, `turn` to a page of the same search, `ask` or `explain` something, `check` FILE:FUNCTION, `config` for a
    release.
    """

    read: Callable[[str], str]
    turn: Callable[[int], str]
    ask: Callable[[str], str]
    explain: Callable[[str], str]
    check: Callable[[str], str] = str
    config: Callable[[str], str] = str
