"""Measure how far a program's own results move when its numbers move by rounding, and what it does on the path of a capture.

A replay may differ from eager by rounding alone: a library takes another path while a stream captures, cuBLAS picks another
algorithm, and an optimizer enlarges the difference. How much of that is harmless only the program itself can tell.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cudagraph_skill.capture.guest import checks, comparison, operations, state, tensors, why_failed
from cudagraph_skill.capture.guest.comparison import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cudagraph_skill.capture.guest.checks import Observations
    from cudagraph_skill.capture.guest.comparison import Wrong
    from cudagraph_skill.capture.guest.load import Source
    from cudagraph_skill.capture.guest.operations import Failure
    from cudagraph_skill.capture.guest.tensors import Distance, HostCopy

_COPIES = 2  # that are moved, each another way
_ALLOWED = 5  # times eager's own move before a replay counts as wrong,
_ALLOWED_BY_DTYPE = 10  # and times as far where the dtype's tolerance has room for more
_CHAOS = 0.1  # relative to the root mean square: results that rounding moves as far cannot be compared
_UNITS = 10  # in the last place, relative to the root mean square: no further, a difference is rounding without a measurement


class Moves(NamedTuple):
    """How far eager moves by rounding: for each call the largest distance so far of each value, by path."""

    calls: list[dict[str, float]]

    def at(self, number: int, path: str) -> float:
        """Return the distance of one value in call `number`."""
        return self.calls[min(number, len(self.calls) - 1)].get(path, 0.0) if self.calls else 0.0


_STILL = Moves([])


class Leeway(NamedTuple):
    """How much of what eager moves by counts as rounding: so many times, and numbers are moved by `step` of themselves at least.

    Distances are measured `by` this function; what is no further than `least` is rounding in any case.
    """

    times: int = _ALLOWED
    step: float = 0.0
    by: Distance = tensors.difference
    least: float = 0.0


REPLAYS = Leeway()


def measured(source: Source, eager: list[Call], leeway: Leeway = REPLAYS) -> Moves:
    """Compare eager calls with those of copies whose floating-point numbers are moved by one unit in the last place at least.

    Parameters, buffers and other state of the GPU are moved before the first call, inputs before each.
    """
    worst: list[dict[str, float]] = [{} for _ in eager]
    for sample in range(_COPIES):
        moved: dict[str, float] = {}
        for number, call in enumerate(_moved_calls(source, len(eager), sample, leeway.step)):
            for path, far in tensors.differences(eager[number].left(), call.left(), by=leeway.by).items():
                moved[path] = max(moved.get(path, 0.0), far)
            worst[number] = {path: max(worst[number].get(path, 0.0), far) for path, far in {**worst[number], **moved}.items()}
    return Moves(worst)


def _moved_calls(source: Source, count: int, sample: int, step: float) -> Iterable[Call]:
    subject = source.fresh()
    for number in range(count):
        given = checks.arguments(subject, number)
        move(state.tensors(subject.roots).values() if number == 0 else subject.given, sample, step)
        move(tensors.tensors(given), sample, step)
        yield checks.eager_call(subject, number, full=False, given=given)


def move(values: Iterable[torch.Tensor], sample: int, step: float = 0.0) -> None:
    """Multiply each element by 1 plus or minus the dtype's epsilon, or `step` where that is more. Whole numbers are kept: masks, counts, steps.

    The signs are those of `sample`: drawn from a generator of their own, so that no other one moves.
    """
    moved = set()
    for tensor in values:
        plain = tensor.detach()
        if plain.is_complex():
            plain = torch.view_as_real(plain.resolve_conj())
        if not _is_moved(plain) or (plain.data_ptr(), plain.shape) in moved:
            continue
        moved.add((plain.data_ptr(), plain.shape))
        generator = torch.Generator(plain.device).manual_seed(len(moved) + (sample << 20))
        up = torch.randint(0, 2, plain.shape, generator=generator, device=plain.device, dtype=torch.int8)
        with torch.no_grad(), contextlib.suppress(RuntimeError):  # of inference mode
            plain.mul_(1 + (2 * up - 1).to(plain.dtype) * max(step, torch.finfo(plain.dtype).eps))


def _is_moved(tensor: torch.Tensor) -> bool:
    return (
        tensor.dtype in tensors.TOLERANCES
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not hasattr(tensor, "to_local")
        and 0 not in tensor.stride()
        and not torch.equal(tensor, tensor.round())
    )


class Rounding(NamedTuple):
    """A difference that is no larger than rounding makes it: `moves` is how far eager itself moves in the same value.

    `moves` is None where that was not measured. `asks` are the lines that ask whether the stream captures; `follows` is how far
    replays are from an eager run in which they are told so, infinite if that run raised, None if no line asks.
    """

    wrong: Wrong
    moves: float | None = None
    asks: Sequence[Failure] = ()
    follows: float | None = None

    @property
    def follows_captured_path(self) -> bool:
        """Return whether eager on the path that a line takes under capture is closer to the replays."""
        return self.follows is not None and self.follows < self.wrong.worst

    @property
    def is_chaos(self) -> bool:
        """Return whether it is so large that it says nothing, although eager moves as far by rounding."""
        return self.wrong.worst > _CHAOS and self.moves is not None and not self.follows_captured_path


def judged(source: Source, observations: Observations, report: Any, leeway: Leeway = REPLAYS) -> Rounding | None:
    """Return the difference between replays and eager if it is no larger than rounding makes it, else None.

    A few units in the last place are rounding. More is compared with how far eager itself moves. What the dtype's tolerance allows
    is rounding too where eager cannot be moved, or where a line asks whether the stream captures and eager with the answer yes
    equals replays. A rank without such a difference makes the same calls, because another one waits for it.
    """
    wrong = observations.wrong
    own = Rounding(wrong) if wrong is not None and not math.isinf(wrong.worst) else None
    apart = comparison.distances(observations.after, observations.captured.calls, leeway.by)
    doubtful = own is not None and _beyond(observations, apart, _units, leeway=leeway) is not None
    if not report.any("whether a difference is more than a few units in the last place", doubtful):
        return own
    report.progress("measuring how far eager itself moves by rounding")
    start = time.monotonic()
    moves = _moves(source, observations, report, leeway)
    allowed = _beyond(observations, apart, tensors.tolerance, leeway=leeway) is None
    small = allowed if moves is None else _beyond(observations, apart, _units, moves, leeway) is None
    asks = doubtful and (small or allowed)
    asked = _asked(source, observations) if report.any("whether a difference may be rounding", asks) else ([], None)
    if own is None or not doubtful:
        return own
    wrong = own.wrong
    far = None if moves is None else moves.at(observations.warm_ups + wrong.calls[-1], wrong.path)
    small = small or (allowed and _follows(asked[1], observations))
    if far is not None:
        message = f"off by {wrong.worst:.2g} in {wrong.path}; eager moves by {far:.2g} when its numbers move in the last place"
        report.step("rounding", "ok" if small else "differs", message, time.monotonic() - start)
    return Rounding(wrong, far, *asked) if small else None


def keeps_numbers(source: Source, observations: Observations) -> bool:
    """Return whether replays are, to the bit, eager calls with the numbers that the arguments had at the capture."""
    subject, calls, kept = source.fresh(), list[Call](), dict[str, Any]()
    for number in range(observations.warm_ups + len(observations.captured.calls)):
        given = checks.arguments(subject, number)
        if number == observations.warm_ups:
            kept = tensors.numbers(given)
        with contextlib.suppress(checks.EagerError):
            calls.append(checks.eager_call(subject, number, full=False, given=tensors.renumbered(given, kept)))
    if len(calls) < observations.warm_ups + len(observations.captured.calls):
        return False
    return not any(far > 0 for far in comparison.noise(calls[observations.warm_ups :], observations.captured.calls).values())


def _moves(source: Source, observations: Observations, report: Any, leeway: Leeway) -> Moves | None:
    try:
        return measured(source, observations.eager, leeway)
    except (checks.EagerError, RuntimeError) as error:  # the program checks its own numbers, or memory is short
        why = why_failed.shown(getattr(error, "error", error))
        report.step("rounding", "skipped", f"eager with moved numbers raised {why}: not measured")
        return None


def _follows(far: float | None, observations: Observations) -> bool:
    """Return whether replays that are `far` from eager on the captured path equal it but for a few units in the last place."""
    return far is not None and far <= min(map(_units, observations.eager[-1].left().values()), default=0.0)


def _units(value: HostCopy) -> float:
    """Return the size of a few units in the last place, no more than the dtype's tolerance."""
    allowed = tensors.tolerance(value)
    return min(allowed, _UNITS * torch.finfo(value.dtype).eps) if value.dtype in tensors.TOLERANCES else allowed


def _beyond(
    observations: Observations,
    apart: list[dict[str, float]],
    least: Callable[[HostCopy], float],
    moves: Moves = _STILL,
    leeway: Leeway = REPLAYS,
) -> Wrong | None:
    """Return where replays that are so far `apart` from eager are further than `least`, eager's own spread and its moves allow."""
    later, spread = observations.warm_ups, comparison.own_spread(observations.spreads)

    def limit(number: int, path: str, value: HostCopy) -> float:
        moved = moves.at(later + number, path)
        by_dtype = min(_ALLOWED_BY_DTYPE * moved, tensors.tolerance(value))
        return max(least(value), leeway.least, spread(number, path, value), leeway.times * moved, by_dtype)

    return comparison.beyond(observations.after, apart, limit)


def _asked(source: Source, observations: Observations) -> tuple[list[Failure], float | None]:
    """Return the lines that ask whether the stream captures, and how far replays are from eager with the answer yes."""
    subject, calls = source.fresh(), []
    with operations.told_it_captures() as lines, contextlib.suppress(checks.EagerError):
        calls = [checks.eager_call(subject, number, full=False) for number in range(len(observations.eager))]
    unique = list({line.library or line.places[-1]: line for line in lines}.values())
    if not unique:
        return [], None
    if not calls:
        return unique, math.inf
    follows = comparison.noise(calls[observations.warm_ups :], observations.captured.calls)
    return unique, max((far for path, far in follows.items() if path in observations.eager[-1].left()), default=0.0)
