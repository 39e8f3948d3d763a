"""Remember answers about pieces of syntax trees while one file is read: afterwards they would only keep its trees alive."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")
_SIZE = 4000  # answers of one function
_clear: list[Callable[[], None]] = []


def remembered(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """Return a function that looks an answer up where it has given it before, until `forget` is called."""
    cached = lru_cache(maxsize=_SIZE)(function)
    _clear.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


def forget() -> None:
    """Drop all answers."""
    for clear in _clear:
        clear()
