"""Choose few programs so that every pair of option values occurs in one of them (all-pairs testing).

Most defects of combined options show in some pair of them, and covering pairs takes far fewer programs than covering
combinations. The workflow counts as an option, so a pair of two other values need not occur in every workflow that allows it.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_Options = TypeVar("_Options", bound=NamedTuple)
Pair = tuple[tuple[str, Any], tuple[str, Any]]  # two options with their values


def pairs(options: Any) -> frozenset[Pair]:
    """Return each two of the options with their values."""
    return frozenset(combinations(options._asdict().items(), 2))


def uncovered(programs: Iterable[Any], done: Iterable[Any]) -> set[Pair]:
    """Return the pairs that occur in `programs` but not in `done`."""
    covered = frozenset[Pair]().union(*map(pairs, done))
    return set().union(*map(pairs, programs)) - covered


def covering(programs: Collection[_Options], done: Iterable[_Options] = ()) -> list[_Options]:
    """Choose from `programs` until they and those that are `done` cover all pairs.

    Greedy and deterministic: take the pair that the fewest programs have, and of these programs the one with most new pairs.
    """
    missing = uncovered(programs, done)
    pairs_of = {program: pairs(program) for program in programs}
    chosen = []
    while missing:
        count = Counter(pair for own in pairs_of.values() for pair in own & missing)
        rarest = min(count, key=lambda pair: (count[pair], repr(pair)))
        candidates = [program for program, own in pairs_of.items() if rarest in own]
        chosen.append(max(candidates, key=lambda program: len(pairs_of[program] & missing)))
        missing -= pairs_of[chosen[-1]]
    return chosen
