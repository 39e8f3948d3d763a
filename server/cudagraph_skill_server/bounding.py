"""How much of an answer is sent: fields that say nothing are left out, and lists are cut to what is read at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGITS = 4  # of a measured number
_MOST = 2_500  # characters that the data of one answer may take, about 625 tokens, however long the paths in it are
_FIRST = 1  # entry of a list beside the main one that is always shown


def bounded(data: Mapping[str, Any], main: str, offset: int | None = None) -> dict[str, Any]:
    """Return the data with as much of their lists as is read at once; `left_out` counts the rest.

    The list `main` begins at `offset` and has at least one entry; it is whole where no offset is known to the tool. Of the
    other lists the first few are kept.
    """
    cut, left_out = dict(data), {}
    for name, rows in data.items():
        if not isinstance(rows, list) or name == main:
            continue
        cut[name] = rows[: max(_FIRST, _fitting(rows, _MOST // 10))]
        left_out[name] = len(rows) - len(cut[name])
    if offset is not None:
        rows = data[main][offset:]
        rest = _sent({name: value for name, value in cut.items() if name != main})
        cut[main] = rows[: max(1, _fitting(rows, _MOST - rest))]
        left_out[main] = len(rows) - len(cut[main])
    return {**cut, "left_out": {name: count for name, count in left_out.items() if count}}


def _fitting(rows: list[Any], most: int) -> int:
    """Return how many of the first rows have that many characters together, as they are sent."""
    for count, row in enumerate(rows):
        most -= _sent(row) + 1
        if most < 0:
            return count
    return len(rows)


def _sent(value: Any) -> int:
    """Return how many characters a value takes in an answer."""
    return len(json.dumps(short(value), ensure_ascii=False, separators=(",", ":")))


def short(value: Any) -> Any:
    """Return the same without fields of objects that are empty, and with numbers as exact as they were measured."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        fields = {name: short(field) for name, field in value.items()}
        return {name: field for name, field in fields.items() if not is_empty(field)}
    return [short(each) for each in value] if isinstance(value, list | tuple) else value


def is_empty(value: object) -> bool:
    """Return whether an answer is shorter without this value and says the same."""
    return value is None or value in ("", [], {}, ())
