"""What calls change that do nothing on the GPU: a graph of them is empty, and no replay makes the change."""

from __future__ import annotations

import linecache
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture.guest import tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.capture.guest.executed import Trail
    from cudagraph_skill.capture.guest.stack import Place
    from cudagraph_skill.capture.guest.tensors import HostCopy


class WithoutGPUError(Exception):
    """The calls of `name` do nothing on the GPU; `changes` are the paths of what each leaves anew, `line` is where, if it is known."""

    def __init__(self, name: str, changes: Sequence[str], line: Place | None) -> None:
        super().__init__(name)
        self.name, self.changes, self.line = name, changes, line


class Left(NamedTuple):
    """What one call left: values that the caller sees and numbers in reach, by path, and the generators that moved."""

    values: dict[str, HostCopy]
    numbers: dict[str, Any]
    moved: set[str]


def changed(calls: Sequence[Left]) -> list[str]:
    """Return the paths of values and numbers that are not those of the first call, and the generators that moved."""
    first, paths = calls[0], list[str]()
    for call in calls[1:]:
        paths += [path for path, far in tensors.differences(first.values, call.values).items() if far > 0]
        paths += [path for path, value in call.numbers.items() if path in first.numbers and first.numbers[path] != value]
        paths += sorted(call.moved)
    return list(dict.fromkeys(paths))


def deciding_line(trail: Trail, changes: Sequence[str]) -> Place | None:
    """Return the first line of a call that assigns something that changes, else its last: the one that returns."""
    names = [words[-1] for path in changes if (words := re.findall(r"[A-Za-z_]\w*", path)) and not path.startswith("result")]
    assigned = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b[^=]*[^=!<>]=[^=]") if names else None
    assigning = (place for place in trail if assigned and assigned.search(linecache.getline(place.path, place.line)))
    return next(assigning, trail[-1] if trail else None)
