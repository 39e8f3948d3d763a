"""Name host values by how they came about, so that two rounds of the same code show whether one changes from call to call."""

from __future__ import annotations

import itertools

_fresh = itertools.count(1)
_REMEMBERED = 100_000  # names of alternatives that are kept

Sym = int


def fresh() -> int:
    """Return a name that nothing else has: for storages, and for values that differ at every call."""
    return next(_fresh)


def mix(*parts: object) -> Sym:
    """Return the name of a value that is made of these in one certain way."""
    return hash(parts)


def sym_of(value: object) -> Sym:
    """Return the name of a Python value that is known."""
    try:
        # With the type: 1, 1.0 and True are equal, and not the same to a kernel. To `hash`, -1 and -2 are one.
        return hash((type(value).__name__, value, value == -1))
    except TypeError:  # a known value that is not hashable, such as a slice before Python 3.12
        return hash((type(value).__name__, repr(value)))


_ALTERNATIVES: dict[Sym, frozenset[Sym]] = {}


def either(one: Sym, other: Sym) -> Sym:
    """Return the name of a value that is one of two: the same however often the same two are joined."""
    both = _ALTERNATIVES.get(one, frozenset((one,))) | _ALTERNATIVES.get(other, frozenset((other,)))
    name = hash(both)
    # A server reads file after file: what it no longer asks for must not stay.
    if len(_ALTERNATIVES) > _REMEMBERED:
        _ALTERNATIVES.clear()
    _ALTERNATIVES[name] = both
    return name
