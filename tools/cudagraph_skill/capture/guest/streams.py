"""Iterators among the arguments of a call: items are recorded while the program draws them, and given again to the check.

A second call cannot draw the items of the first from the program's own iterator, so copies of the call could not be compared.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.guest import stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cudagraph_skill.capture.guest.stack import Place


class _Stand:
    """Stands in for an iterator: an instance of its class to `isinstance`, with all its other attributes."""

    __slots__ = ("_kept", "items", "source")

    def __init__(self, source: Any, items: list[Any], kept: Streams) -> None:
        self.source, self.items, self._kept = source, items, kept

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def __iter__(self) -> Any:
        return self

    @property
    def lives_on(self) -> bool:
        """Return whether several calls draw from it; otherwise each call has its own, as it may have its own list."""
        return self._kept.calls[id(self.source)] > 1


class Recording(_Stand):
    """Draws from the program's iterator; keeps a copy of each item, and the user's frames that drew it, outermost first."""

    __slots__ = ("draws",)

    def __init__(self, source: Any, kept: Streams) -> None:
        super().__init__(source, [], kept)
        self.draws: list[list[Place]] = []

    def __next__(self) -> Any:
        item = next(self.source)
        self.items.append(self._kept.copy(item))
        self.draws.append(stack.here())
        return item

    def again(self) -> Playback:
        """Return an iterator over the items, also over those that are drawn later."""
        return Playback(self.source, self.items, self._kept)


class Playback(_Stand):
    """Gives the items of one recorded call."""

    __slots__ = ("_rest",)

    def __init__(self, source: Any, items: list[Any], kept: Streams) -> None:
        super().__init__(source, items, kept)
        self._rest = iter(items)

    def __next__(self) -> Any:
        return next(self._rest)

    def again(self) -> Playback:
        """Return an iterator over copies of the items, from the first."""
        return Playback(self.source, list(map(self._kept.copy, self.items)), self._kept)


class Streams:
    """The iterators that the calls of a target have among their arguments; `copy` copies an item."""

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
        return any(recording.draws for recording in self._recordings)

    def draws(self) -> list[list[Place]]:
        """Return the user's frames of each line that drew an item which a later call draws anew."""
        lasting = [frames for recording in self._recordings if recording.lives_on for frames in recording.draws if frames]
        return list({frames[-1]: frames for frames in lasting}.values())


def _is(first: object, second: object) -> bool:
    return first is second


def is_iterator(value: Any) -> bool:
    """Return whether a value gives items by `next`: a generator, what `iter` makes of a loader or a list, Megatron's wrapper."""
    return hasattr(type(value), "__next__") and not isinstance(value, io.IOBase)
