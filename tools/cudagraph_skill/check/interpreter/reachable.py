"""Find what is alive: all values that others lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Choice, Mapping, Sequence, Value

if TYPE_CHECKING:
    from collections.abc import Iterable


def reachable(roots: Iterable[Value], *, several: bool = False) -> set[int]:
    """Return the ids of all values that are certainly alive while the roots are, or only of those of which there may be `several`.

    A value that is one of some leads nowhere, unless it stands for the items of a container, of which there may be each.
    """
    # Values lead to each other in circles: an object to its class, the class to a function, that to the object.
    seen: set[tuple[int, bool]] = set()
    waiting = [(root, False) for root in roots]
    while waiting:
        value, many = waiting.pop()
        if (id(value), many) not in seen:
            seen.add((id(value), many))
            waiting += _kept_by(value, many=many)
    return {place for place, many in seen if many or not several}


def _kept_by(value: Value, *, many: bool) -> list[tuple[Value, bool]]:
    """Return what a value keeps alive; of `many`, which stands for all items of a container, each of its alternatives is there."""
    if isinstance(value, Choice) and not many:
        return []
    if isinstance(value, Mapping):
        kept = [(item, many or _is_unknown(key)) for key, item in value.slots.items()]
    else:
        kept = [(part, many) for part in value.parts()]
    # One value stands for all items that are not known one by one.
    rest = value.rest if isinstance(value, (Sequence, Mapping)) else None
    return kept if rest is None else [*kept, (rest, True)]


def _is_unknown(key: object) -> bool:
    """Tell whether a key of a dict stands for a host value that is not known: other turns of a loop have others."""
    return isinstance(key, tuple) and key[:1] == ("host",)
