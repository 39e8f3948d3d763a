"""Put one server into the text of a configuration, or take it out; every other byte stays."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.setup import jsonc
from cudagraph_skill.setup.jsonc import BrokenError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cudagraph_skill.setup.jsonc import Member, Value

_COMMENT = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:[^*\n]|\*(?!/))*\*/)")  # that stands in the line of what it is about

_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/')


class Table(NamedTuple):
    """Name the table of servers in a configuration: format as in `clients`, its key, and the server."""

    format: str
    key: str
    name: str


class Piece(NamedTuple):
    """Hold text that is inserted, and where in the text before."""

    at: int
    text: str


def parsed(text: str, form: str) -> dict[str, Any]:
    """Return a configuration as values; that of an empty text is empty.

    Raises:
        BrokenError: The client could not read it either.
    """
    if form == "toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BrokenError(str(error)) from None
    if not text.strip():
        return {}
    content = jsonc.read(text).content
    if form in ("json", "commented"):
        plain = text if form == "json" else _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text)
        try:
            content = json.loads(plain)
        except ValueError as error:
            raise BrokenError(str(error)) from None
    if not isinstance(content, dict):
        raise BrokenError("its value is no object")
    return content


def found(text: str, table: Table) -> dict[str, Any] | None:
    """Return the entry of the server, or None.

    Raises:
        BrokenError: The client could not read the text, or has no table of servers at the key.
    """
    servers = parsed(text, table.format).get(table.key, {})
    if not isinstance(servers, dict):
        raise BrokenError(f"`{table.key}` is no table of servers")
    if table.format != "toml" and text.strip():
        for value, key in ((jsonc.read(text), table.key), (_servers(text, table), table.name)):
            if value and [member.key for member in value.members].count(key) > 1:
                raise BrokenError(f"`{key}` stands in it twice")
    entry = servers.get(table.name)
    if entry is not None and not isinstance(entry, dict):
        raise BrokenError(f"`{table.key}.{table.name}` is no table")
    return entry


def snippet(table: Table, entry: Mapping[str, Any]) -> str:
    """Return the entry as one adds it by hand."""
    if table.format == "toml":
        return _toml(table, entry, "\n").rstrip("\n")
    return json.dumps({table.key: {table.name: entry}}, indent=2, ensure_ascii=False)


def pieces(text: str, table: Table, entry: Mapping[str, Any]) -> list[Piece]:
    """Return what to insert so that the configuration has the entry, which it has not yet.

    Raises:
        BrokenError: The text that comes out would not be the configuration with the entry.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    if table.format == "toml":
        gap = "" if not text else newline if text.endswith("\n") else newline * 2
        made = [Piece(len(text), gap + _toml(table, entry, newline))]
    else:
        made = _json_pieces(text, table, entry, newline)
    before, after = parsed(text, table.format), parsed(inserted(text, made), table.format)
    if after != {**before, table.key: {**before.get(table.key, {}), table.name: dict(entry)}}:
        raise BrokenError("the entry cannot be inserted without changing the rest")
    return made


def inserted(text: str, made: Iterable[Piece]) -> str:
    """Return the text with the pieces."""
    for piece in sorted(made, reverse=True):
        text = text[: piece.at] + piece.text + text[piece.at :]
    return text


def taken_out(text: str, made: Iterable[Piece]) -> str | None:
    """Return the text without the pieces, or None where they do not stand in it at their places."""
    for piece in sorted(made):  # what stands before a piece is as it was, once the pieces before it are out
        if not text.startswith(piece.text, piece.at):
            return None
        text = text[: piece.at] + text[piece.at + len(piece.text) :]
    return text


def without(text: str, table: Table, made: Iterable[Piece]) -> str:
    """Return the text without the entry, where the rest may have changed since it was inserted.

    Raises:
        BrokenError: The entry cannot be told from the rest.
    """
    if table.format == "toml":
        ours = max((piece.text for piece in made), key=len, default="").strip("\r\n")
        if not ours or text.count(ours) != 1:
            raise BrokenError("its lines are not those that were inserted")
        at = text.index(ours)
        left = re.sub(r"(\r?\n){1,2}\Z", lambda gap: gap[1] if at > len(gap[0]) else "", text[:at])
        after = left + re.sub(r"\A\r?\n", "", text[at + len(ours) :])
    else:
        after = _without_member(text, table)
    before, now = parsed(text, table.format), parsed(after, table.format)
    rest = {name: entry for name, entry in before[table.key].items() if name != table.name}
    if {**now, table.key: now.get(table.key, {})} != {**before, table.key: rest}:
        raise BrokenError("the entry cannot be taken out without changing the rest")
    return after


def _toml(table: Table, entry: Mapping[str, Any], newline: str) -> str:
    # A JSON string without \u escapes above the base plane is a TOML string too.
    values = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in entry.items())
    return newline.join([f"[{table.key}.{table.name}]", *values, ""])


def _servers(text: str, table: Table) -> Value | None:
    """Return the object of servers, or None where there is none."""
    return next((member.value for member in jsonc.read(text).members if member.key == table.key), None)


def _json_pieces(text: str, table: Table, entry: Mapping[str, Any], newline: str) -> list[Piece]:
    if not text.strip():
        whole = json.dumps({table.key: {table.name: entry}}, indent=2, ensure_ascii=False)
        return [Piece(len(text), whole.replace("\n", newline) + newline)]
    root, servers = jsonc.read(text), _servers(text, table)
    unit = _indent(text, root.members[0].start) if root.members and "\n" in text else ""
    if not re.fullmatch(r"[ \t]+", unit):
        unit = "  "
    if servers is None:
        return _appended(text, root, table.key, {table.name: entry}, unit)
    return _appended(text, servers, table.name, entry, unit)


def _appended(text: str, value: Value, key: str, content: Mapping[str, Any], unit: str) -> list[Piece]:
    """Return the pieces that make a member the last of an object, in the style of the others."""
    name = json.dumps(key, ensure_ascii=False)
    if "\n" not in text or ("\n" not in text[value.start : value.end] and value.members):
        member = f"{name}: {json.dumps(content, ensure_ascii=False)}"
        if not value.members:
            return [Piece(value.start + 1, member)]
        end, comma = _end(text, value.members[-1])
        return [Piece(end, f" {member}," if comma else f", {member}")]
    newline = "\r\n" if "\r\n" in text else "\n"
    base = _indent(text, value.start)
    indent = _indent(text, value.members[-1].start) if value.members else base + unit
    dumped = json.dumps(content, indent=unit, ensure_ascii=False).replace("\n", newline + indent)
    line = f"{newline}{indent}{name}: {dumped}"
    if value.members:
        end, comma = _end(text, value.members[-1])
        comment = _COMMENT.match(text, end)
        place = comment.end() if comment else end
        if comma:
            return [Piece(place, line + ",")]
        return [Piece(end, ","), Piece(place, line)] if comment else [Piece(end, "," + line)]
    inner = text[value.start + 1 : value.end - 1]
    kept = len(inner.rstrip())
    closing = "" if "\n" in inner[kept:] else newline + base
    return [Piece(value.start + 1 + kept, line + closing)]


def _end(text: str, member: Member) -> tuple[int, bool]:
    """Return where a member ends, with its comma, and whether it has one."""
    after = jsonc.skip(text, member.value.end)
    return (after + 1, True) if text.startswith(",", after) else (member.value.end, False)


def _indent(text: str, at: int) -> str:
    """Return the space that begins the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _without_member(text: str, table: Table) -> str:
    servers = _servers(text, table)
    assert servers is not None
    names = [member.key for member in servers.members]
    at = names.index(table.name)
    member = servers.members[at]
    start = servers.start + 1
    if at:
        previous = servers.members[at - 1]
        start, _ = _end(text, previous)
    begin = start + len(text[start : member.start].rstrip())  # comments before it stay
    end, comma = _end(text, member)
    text = text[:begin] + text[end:]
    if at and at == len(names) - 1 and not comma:  # it was the last, so the comma before it goes
        place = jsonc.skip(text, previous.value.end)
        text = text[:place] + text[place + 1 :]
    return text
