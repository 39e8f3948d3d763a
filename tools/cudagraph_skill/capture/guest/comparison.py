"""What a call left behind, and how far calls of several copies are apart: replays from eager, eager copies from each other."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture.guest import tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudagraph_skill.capture.guest.tensors import Distance, HostCopy

_SPREADS = 20  # times eager's own spread before a replay counts as different
_ALIKE = 1e-3  # a relative difference up to which two eager copies count as equal but for rounding
_LEAST_REPLAYS = 3  # that can be compared with eager for a verdict
COMPARED = ("result", "state()")  # values that the caller sees, or that the user named


class Call(NamedTuple):
    """What one call left behind: its result, the compared state, the generators that moved, the reachable numbers."""

    out: dict[str, HostCopy]
    state: dict[str, HostCopy]
    moved: set[str]
    scalars: dict[str, Any]

    def left(self) -> dict[str, HostCopy]:
        """Return the result and the state by path."""
        return {**{f"result{path}": copy for path, copy in self.out.items()}, **self.state}


class Wrong(NamedTuple):
    """A difference between replay and eager: the calls after the capture (0: its own inputs), the worst difference, its path.

    `tolerance` is what that value is allowed by its dtype and eager's own spread.
    """

    calls: list[int]
    worst: float
    path: str
    tolerance: float


class Drift(NamedTuple):
    """Rounding that the program enlarges: from `call` on two eager copies that began alike are `far` apart in the value at `path`."""

    call: int
    path: str
    far: float


class Eager(NamedTuple):
    """The calls of one eager copy, and how far others are `apart` from it in each value of each call, by path.

    `apart` may end sooner: from there on the others say nothing. Of a program with a `drift` both end before it.
    """

    calls: list[Call]
    apart: list[dict[str, float]]
    drift: Drift | None = None

    @property
    def spread(self) -> dict[str, float]:
        """Return the largest distance of each value."""
        return _worst(self.apart)


def noise(first: list[Call], second: list[Call]) -> dict[str, float]:
    """Return how far two copies differ: for each value the largest difference of all calls."""
    return _worst([tensors.differences(a.left(), b.left()) for a, b in zip(first, second, strict=False)])


def _worst(apart: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the largest difference of each value."""
    return functools.reduce(wider, apart, {})


def wider(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    """Return the larger difference of each value."""
    return {path: max(first.get(path, 0.0), second.get(path, 0.0)) for path in {**first, **second}}


def compare(
    eager: list[Call], graph: list[Call], limit: Callable[[int, str, HostCopy], float], by: Distance = tensors.difference
) -> Wrong | None:
    """Return where replays differ from eager by more than `limit(number of the call, path, eager's value)`; None if nowhere."""
    return beyond(eager, distances(eager, graph, by), limit)


def distances(eager: list[Call], graph: list[Call], by: Distance) -> list[dict[str, float]]:
    """Return how far each value of each replay is from eager's; values that Python dropped show in the result, if they matter."""
    pairs = [(a.left(), b.left()) for a, b in zip(eager, graph, strict=False)]
    return [
        {path: far for path, far in tensors.differences(a, b, by=by).items() if path in b or path.startswith(COMPARED)}
        for a, b in pairs
    ]


def beyond(eager: list[Call], apart: list[dict[str, float]], limit: Callable[[int, str, HostCopy], float]) -> Wrong | None:
    """Return where the `distances` of replays are more than `limit(number of the call, path, eager's value)`; None if nowhere."""
    calls, worst, where, at_worst = [], 0.0, "", 0.0
    for number, (call, distant) in enumerate(zip(eager, apart, strict=False)):
        left = call.left()
        for path, far in distant.items():
            allowed = limit(number, path, left[path])
            if far > allowed:
                calls.append(number)
                if far > worst:
                    worst, where, at_worst = far, path, max(allowed, tensors.tolerance(left[path]))
    return Wrong(sorted(set(calls)), worst, where, at_worst) if calls else None


def own_spread(spreads: dict[str, float]) -> Callable[[int, str, HostCopy], float]:
    """Return the limit that eager's own spread sets; where eager repeats to the bit, every difference is beyond it."""
    return lambda _number, path, _value: _SPREADS * spreads.get(path, 0.0)


def until_apart(calls: list[Call], apart: list[dict[str, float]], warm_ups: int, report: Any) -> Eager:
    """Return the calls up to where the copies part: from there on, replays cannot be compared with eager.

    Copies that were equal to the bit until then part for another reason than rounding, such as a count that both share: replays
    can be compared, but without the help of that copy. If they part too early for a verdict, all is returned.
    """
    far = [max(each.values(), default=0.0) for each in apart]
    first = next((number for number, each in enumerate(far) if each > _ALIKE), len(far))
    first = len(far) - int(report.most("the calls in which eager is apart", len(far) - first))
    rounds = report.any("whether eager rounds another way", any(far[:first]))
    if first == len(far) or (rounds and first - warm_ups < _LEAST_REPLAYS):
        return Eager(calls, apart)
    if not rounds:
        return Eager(calls, apart[: max(first, warm_ups + 1)])
    path = max(apart[first], key=lambda path: apart[first][path], default="")
    return Eager(calls[:first], apart[:first], Drift(first, path, apart[first].get(path, 0.0)))
