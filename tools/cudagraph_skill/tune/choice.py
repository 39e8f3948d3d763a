"""Choose the way that is the fastest and right; among those that are equally fast, within the noise, the simplest."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.tune.ways import EAGER, WAYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.tune.trials import Trial

_SIMPLEST = tuple(WAYS)
_NOTICED = 1.01  # times as fast: less is not worth another way, and processes with the same kernels differ by 0.3 %


class Choice(NamedTuple):
    """The way to take, and those that are as fast within the noise; `gain` is how many times as fast as eager it is."""

    trial: Trial
    tied: Sequence[str]
    gain: float


def choice(trials: Sequence[Trial]) -> Choice | None:
    """Return the way to take; None if eager calls could not be timed."""
    right = [trial for trial in trials if trial.is_right]
    eager = next((trial for trial in right if trial.name == EAGER), None)
    if eager is None:
        return None
    fastest = min(right, key=lambda trial: trial.seconds)
    equal = [trial for trial in right if trial is fastest or trial.spread[0] <= _NOTICED * fastest.spread[1]]
    taken = min(equal, key=lambda trial: _SIMPLEST.index(trial.name))
    return Choice(taken, [trial.name for trial in equal if trial is not taken], eager.seconds / taken.seconds)


def taken(trials: Sequence[Trial]) -> Trial | None:
    """Return the way to take in place of eager calls; None if there is none."""
    found = choice(trials)
    return None if found is None or found.trial.name == EAGER else found.trial
