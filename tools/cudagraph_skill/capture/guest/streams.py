"""Record the items that a call draws from iterators among its arguments, and give copies of them to repeated calls.

The program's own iterator cannot be rewound, so without this two eager copies of a call would get different items.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.guest import stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cudagraph_skill.capture.guest.stack import Place


class _Stand:
    """Replace an iterator: to the program it has the class, attributes, length and items of the original.

    Its own attributes have names that no program uses, and writes go to the original.
    """

    __slots__ = ("_cg_items", "_cg_source", "_cg_streams")

    def __init__(self, source: Any, items: list[Any], streams: Streams) -> None:
        for name, value in (("_cg_source", source), ("_cg_items", items), ("_cg_streams", streams)):
            object.__setattr__(self, name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._cg_source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cg_source, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._cg_source, name, value)

    def __bool__(self) -> bool:
        return bool(self._cg_source)

    def __len__(self) -> int:
        return len(self._cg_source)

    def __getitem__(self, key: Any) -> Any:
        return self._cg_source[key]

    def __iter__(self) -> Any:
        return self


def items(stand: Playback) -> list[Any]:
    """Return the items of a recorded call."""
    recorded: list[Any] = stand._cg_items
    return recorded


def lives_on(stand: _Stand) -> bool:
    """Return whether several calls share the iterator. Otherwise its items are inputs, like those of a list."""
    return bool(stand._cg_streams.calls[id(stand._cg_source)] > 1)


def again(stand: Recording | Playback) -> Playback:
    """Return an iterator over the items of a recording, or over copies of those of a playback."""
    same = type(stand) is Recording
    recorded = stand._cg_items if same else list(map(stand._cg_streams.copy, stand._cg_items))
    return Playback(stand._cg_source, recorded, stand._cg_streams)


class Recording(_Stand):
    """Pass on the items of the program's iterator; keep a copy of each, and the user's frames that drew it, outermost first."""

    __slots__ = ("_cg_draws",)

    def __init__(self, source: Any, streams: Streams) -> None:
        super().__init__(source, [], streams)
        object.__setattr__(self, "_cg_draws", [])

    def __next__(self) -> Any:
        item = next(self._cg_source)
        self._cg_items.append(self._cg_streams.copy(item))
        self._cg_draws.append(stack.here())
        return item


class Playback(_Stand):
    """Give the items of one recorded call."""

    __slots__ = ("_cg_rest",)

    def __init__(self, source: Any, items: list[Any], streams: Streams) -> None:
        super().__init__(source, items, streams)
        object.__setattr__(self, "_cg_rest", iter(items))

    def __next__(self) -> Any:
        return next(self._cg_rest)


class Streams:
    """Track the iterators among the arguments of a target's calls; `copy` copies an item."""

    def __init__(self, copy: Callable[[Any], Any]) -> None:
        self.copy = copy
        self.calls: dict[int, int] = {}  # calls that had an iterator, by its identity
        self._alive: list[Any] = []  # so that an identity stays its own
        self._recordings: list[Recording] = []

    def seen(self, arguments: Iterable[Any]) -> None:
        """Note the iterators among the arguments of one more call."""
        for iterator in {id(value): value for value in arguments if is_iterator(value)}.values():
            self.calls[id(iterator)] = self.calls.get(id(iterator), 0) + 1
            self._alive.append(iterator)

    def recorded(self, value: Any) -> Any:
        """Return arguments with a recording in place of each iterator; lists, tuples and dicts without one stay themselves."""
        if is_iterator(value):
            self._recordings.append(Recording(value, self))
            return self._recordings[-1]
        if type(value) in (list, tuple):
            parts = [self.recorded(part) for part in value]
            return value if all(map(_is, value, parts)) else type(value)(parts)
        if type(value) is dict:
            named = {key: self.recorded(part) for key, part in value.items()}
            return value if all(map(_is, value.values(), named.values())) else named
        return value

    @property
    def drawn(self) -> bool:
        """Return whether a call drew an item."""
        return any(recording._cg_draws for recording in self._recordings)

    def draws(self) -> list[list[Place]]:
        """Return the user's frames of each line that drew an item which a later call draws anew."""
        lasting = [frames for recording in self._recordings if lives_on(recording) for frames in recording._cg_draws if frames]
        return list({frames[-1]: frames for frames in lasting}.values())


def _is(first: object, second: object) -> bool:
    return first is second


def is_iterator(value: Any) -> bool:
    """Return whether a value gives items by `next`: a generator, what `iter` makes of a loader or a list, Megatron's wrapper."""
    return hasattr(type(value), "__next__") and not isinstance(value, io.IOBase)
