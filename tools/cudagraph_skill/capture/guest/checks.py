"""The steps of the check, from two eager copies to the last replay: what each showed, and what that means.

An eager copy of the subject and a captured one make the same calls with equal seeds. They are built twice, so that they share
nothing; where that cannot be, one subject is restored to its first state in between.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cudagraph_skill.capture.guest import (
    comparison,
    executed,
    host_only,
    leftovers,
    load,
    nodes,
    operations,
    stack,
    state,
    tensors,
)
from cudagraph_skill.capture.guest.comparison import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cudagraph_skill.capture.guest.comparison import Drift, Eager, Wrong
    from cudagraph_skill.capture.guest.load import Source, Subject
    from cudagraph_skill.capture.guest.operations import Failure
    from cudagraph_skill.capture.guest.stack import Place
    from cudagraph_skill.capture.guest.tensors import HostCopy

WARM_UPS = 3
_REPLAYS, _MANY_REPLAYS, _FEW_REPLAYS = 6, 14, 4  # on new inputs; where Python state changes; where one call takes long
_LONG = 0.3  # seconds of a call
_VERY_LONG = 1.0  # seconds of a call in the program from which on it is captured first: most fail there, and soon
SURE = 1e-2  # a relative difference that needs no third eager copy as a control
_DOUBT = 0.3  # a relative difference that needs no second captured copy as a control
_FIRST_SEED = 1000
_POISON = [1 << power for power in range(6, 21)]  # elements of the blocks that take the place of freed memory


class Captured(NamedTuple):
    """The replays of one capture; if the capture failed, `error` is what surfaced and `inner` what the user's code raised.

    `failed`: it failed on this rank or another one, and no rank replayed. `waits` are the lines where the call before it waited
    for the GPU, by torch's sync debug mode. `numbers` are the sentences about those in the arguments that change. `moves_on` is whether two more replays moved the GPU's generator, None if none was made.
    """

    calls: list[Call]
    error: BaseException | None
    inner: BaseException | None
    stuck: list[str]
    nodes: nodes.Nodes | None
    static: Any
    failed: bool = False
    waits: Sequence[Failure] = ()
    numbers: Sequence[str] = ()
    moves_on: bool | None = None


class EagerError(Exception):
    """The user's code raised in eager: `error` is what it raised, in call `number`."""

    def __init__(self, error: BaseException, number: int) -> None:
        super().__init__(str(error))
        self.error, self.number = error, number


class ReplayError(Exception):
    """A replay raised: `error` in replay `number`, from 0 on. The GPU of this process cannot be used after that."""

    def __init__(self, error: BaseException, number: int) -> None:
        super().__init__(str(error))
        self.error, self.number = error, number


# Calls ----------------------------------------------------------------------------------------------------------------


def observed(subject: Subject) -> dict[str, HostCopy]:
    """Return the state to compare: what the user named with parameters, buffers and optimizer state, else all tensors.

    Of what the user did not name only tensors on the GPU: a count that the host keeps is wrong only where something shows it.
    """
    reached = state.beside_no_graph(subject.roots) if subject.state is None else state.trained(subject.roots)
    copies = {path: tensors.to_host(tensor) for path, tensor in reached.items() if tensor.is_cuda}
    named = tensors.values_to_host(subject.state()) if subject.state is not None else {}
    return {**copies, **{f"state(){path}": copy for path, copy in named.items()}}


def arguments(subject: Subject, number: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of call `number`, the same for each copy; the first call of a copy begins at the same random state."""
    if number == 0:
        state.seed(_FIRST_SEED)
    with state.drawing(_FIRST_SEED + number):
        given: tuple[tuple[Any, ...], dict[str, Any]] = subject.inputs(number) if subject.numbered else subject.inputs()
    known = {id(value) for _, value in subject.roots}
    opaque = [value for value in tensors.state_among(given, subject.earlier) if id(value) not in known]
    subject.roots.extend((f"argument {type(value).__name__}", value) for value in opaque)
    return given


def eager_call(subject: Subject, number: int, full: bool = True, given: Any = None) -> Call:
    """Call eagerly with the arguments `given` or its own, and return what the call left behind."""
    try:
        args, kwargs = given or arguments(subject, number)
        before = state.random_marks() if full else {}
        out = subject.call(*args, **kwargs)
        if inspect.iscoroutine(out) or inspect.isgenerator(out) or inspect.isasyncgen(out):
            raise load.Misuse(
                f"{subject.name} returns a {type(out).__name__}, which does nothing yet: name a function that does the work when it is called"
            )
        moved = state.moved(before, state.random_marks()) if full else set()
        torch.cuda.synchronize()
        return Call(tensors.values_to_host(out), observed(subject), moved, state.scalars(subject.reach) if full else {})
    except load.Misuse:
        raise
    except BaseException as error:
        raise EagerError(error, number) from error


def _sharing(call: Call, before: Call) -> Call:
    """Return a call with the state of the one before where both are equal: weights that stay are kept once."""
    same = {path for path, copy in call.state.items() if path in before.state and _equal(copy, before.state[path])}
    return call._replace(state={path: before.state[path] if path in same else copy for path, copy in call.state.items()})


def _equal(one: HostCopy, other: HostCopy) -> bool:
    return one[1:] == other[1:] and torch.equal(one.data, other.data)


def warm_ups_of(subject: Subject) -> int:
    """Return the number of calls before a capture."""
    return WARM_UPS if subject.warmup is None else subject.warmup


def warm_up(subject: Subject, count: int) -> None:
    """Call it `count` times on a side stream, as one warms up before a capture."""
    side = torch.cuda.Stream()
    for number in range(count):
        args, kwargs = arguments(subject, number)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            out = subject.call(*args, **kwargs)
        torch.cuda.current_stream().wait_stream(side)
        del out
    torch.cuda.synchronize()


def _register_tracked(graph: torch.cuda.CUDAGraph) -> None:
    """Let a graph advance the generators that Megatron and Transformer Engine register with theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch >=2.14 registers each generator that it meets, and says so
        for generator in state.tracked():
            graph.register_generator_state(generator)


class Attempt(NamedTuple):
    """One captured call: `error` surfaced, `inner` left the user's code."""

    graph: torch.cuda.CUDAGraph
    static: Any
    out: Any
    error: BaseException | None
    inner: BaseException | None


def _error_mode() -> str:
    """Return the mode of a capture: the strict one, but where another thread of the program may use the GPU meanwhile.

    That is a watchdog of NCCL, which asks for events, or a thread that pins memory; one that failed would end the program.
    """
    distributed = torch.distributed
    several = distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
    return "thread_local" if several or pins_memory() else "global"


def pins_memory() -> bool:
    """Return whether a DataLoader pins memory in a thread of this process."""
    return any("_pin_memory_loop" in thread.name for thread in threading.enumerate())


def capture(subject: Subject, number: int, within: Callable[[], Any] = contextlib.nullcontext) -> Attempt:
    """Capture one call with the arguments that it would have."""
    static = tensors.static(arguments(subject, number))
    graph, inner, out = nodes.new_graph(), None, None
    _register_tracked(graph)
    torch.cuda.synchronize()
    with leftovers.same_stream():
        try:
            with torch.cuda.graph(graph, capture_error_mode=_error_mode()), within():
                try:
                    out = subject.call(*static[0], **static[1])
                except BaseException as error:
                    inner = error
                    raise
        except BaseException as error:  # noqa: BLE001 - whatever it raises is the result
            leftovers.reset_generators()
            leftovers.poll_freed_pinned_memory()
            return Attempt(graph, static, None, error, inner)
    leftovers.poll_freed_pinned_memory()
    torch.cuda.synchronize()  # up to torch 2.11 a capture sets the random state on its own stream, and no replay waits for that
    return Attempt(graph, static, out, None, None)


def capture_and_replay(
    subject: Subject, warm_ups: int, rounds: int, report: Any, step: Callable[..., None], draws: bool = False
) -> Captured:
    """Warm up, capture, replay on the same and on new inputs; report what is done by `step`.

    A graph lives as long as its subject: where eager calls drew on the GPU (`draws`), see here whether replays do.
    """
    start = time.monotonic()
    try:
        waits = _synced(subject, warm_ups)
    except BaseException as error:
        raise EagerError(error, warm_ups) from error
    step("sync", "ok" if not waits else "differs", _waits_shown(waits), time.monotonic() - start)
    start = time.monotonic()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        attempt = capture(subject, warm_ups)
    if report.any("whether the capture failed", attempt.error is not None):
        return Captured([], attempt.error, attempt.inner, [], None, attempt.static, failed=True, waits=waits)
    counted = nodes.listed(attempt.graph)
    nodes.ready(attempt.graph)
    empty = any("graph is empty" in str(warning.message) for warning in warned) or (counted is not None and not counted.kinds)
    step(
        "capture",
        "ok",
        "nothing was captured: the call does no work on the GPU" if empty else "captured",
        time.monotonic() - start,
    )
    calls, stuck, numbers = list[Call](), list[str](), list[str]()
    for number in range(warm_ups, warm_ups + 1 + rounds):
        if number > warm_ups:
            new = arguments(subject, number)
            stuck += [f"call {number}: {sentence}" for sentence in tensors.refill(attempt.static, new)]
            numbers += [f"call {number}: {sentence}" for sentence in tensors.other_numbers(attempt.static, new)]
        poison = _poisoned()
        try:
            attempt.graph.replay()
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise ReplayError(error, number - warm_ups) from error
        call = Call(tensors.values_to_host(attempt.out), observed(subject), set(), {})
        calls.append(_sharing(call, calls[-1]) if calls else call)
        del poison
    moves_on = _moves_on(attempt.graph) if draws else None
    return Captured(calls, None, None, stuck, counted, attempt.static, numbers=numbers, moves_on=moves_on)


def _moves_on(graph: torch.cuda.CUDAGraph) -> bool:
    """Return whether two replays in a row on the same inputs draw different numbers."""
    marks = []
    for _ in range(2):
        graph.replay()
        torch.cuda.synchronize()
        marks.append(torch.cuda.get_rng_state())
    return not torch.equal(*marks)


def _poisoned() -> list[torch.Tensor]:
    """Fill blocks of many sizes with NaN, so that a graph that reads freed memory reads NaN."""
    with contextlib.suppress(tensors.OUT_OF_MEMORY):
        return [torch.full((size,), float("nan"), device="cuda") for size in _POISON]
    return []


def _synced(subject: Subject, warm_ups: int) -> list[Failure]:
    """Warm up; return the lines where torch's sync debug mode saw the last of these calls wait for the GPU."""
    warm_up(subject, max(warm_ups - 1, 0))
    waits: dict[Place, Failure] = {}

    def record(message: Any, *_: Any, **__: Any) -> None:
        places = stack.here()
        if "called a synchronizing" in str(message) and places:  # not the notice that this mode does not see everything
            waits.setdefault(places[-1], operations.Failure("", "", places, stack.library()))

    if warm_ups:
        side = torch.cuda.Stream()
        args, kwargs = arguments(subject, warm_ups - 1)
        side.wait_stream(torch.cuda.current_stream())
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = record
            torch.cuda.set_sync_debug_mode("warn")
            try:
                with torch.cuda.stream(side):
                    out = subject.call(*args, **kwargs)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        del out
    return list(waits.values())


def _waits_shown(waits: list[Failure]) -> str:
    if not waits:
        return "no call waited for the GPU"
    return "waits for the GPU at " + ", ".join(f"line {wait.places[-1].line}" for wait in waits[:6])


# The check ------------------------------------------------------------------------------------------------------------


class Observations(NamedTuple):
    """What one check saw: the captured calls, what is wrong with them, and the generators and numbers that eager changed.

    `eager` are all eager calls, `spreads` how far two eager copies are apart in each value, by path. Of a program with a `drift`
    both have the calls before it, and so have the replays.
    """

    captured: Captured
    wrong: Wrong | None
    eager: list[Call]
    spreads: dict[str, float]
    warm_ups: int
    moved: set[str]
    changing: dict[str, tuple[Any, Any]]
    drift: Drift | None = None

    @property
    def after(self) -> list[Call]:
        """Return the eager calls from the one of the capture on."""
        return self.eager[self.warm_ups :]

    @property
    def spread(self) -> float:
        """Return the largest distance of two eager copies."""
        return max(self.spreads.values(), default=0.0)

    @property
    def unsteady(self) -> str:
        """Return the path of the value in which two eager copies differ most."""
        return max(self.spreads, key=lambda path: self.spreads[path], default="")


def run(source: Source, report: Any) -> Observations:
    """Call eagerly, capture, replay and compare; report each step.

    Raises:
        EagerError: eager raised.
        host_only.WithoutGPUError: the calls do nothing that a graph could hold.
        load.Misuse, load.Raised: the subject cannot be built.
    """
    start = time.monotonic()
    report.progress("building the callable")
    first, second = pair(source)
    report.step(
        "build", "ok", "two copies with equal seeds" if source.builds_anew else f"one copy, restored each time: {source.why_reused}",
        time.monotonic() - start,
    )  # fmt: skip
    warm_ups = warm_ups_of(first)
    if report.most("the time of a call in the program", first.seconds) > _VERY_LONG:
        captured = capture_and_replay(first, warm_ups, 0, report, lambda *_: None)
        if captured.failed:
            return Observations(captured, None, [], {}, warm_ups, set(), {})
        first = second = source.fresh()
    eager = eager_calls(source, first, second, warm_ups, report)
    del first, second
    gc.collect()
    report.progress("capturing")
    moved = set().union(*(call.moved for call in eager.calls))
    draws = report.any("whether it draws random numbers", "cuda-random" in moved)
    rounds = len(eager.calls) - warm_ups - 1
    captured = capture_and_replay(source.fresh(), warm_ups, rounds, report, report.step, draws)
    eager = eager._replace(calls=[*eager.calls[:warm_ups], *lasting(eager.calls, warm_ups)])
    changing = _changing(eager.calls)
    if captured.failed:
        return Observations(captured, None, eager.calls, eager.spread, warm_ups, moved, changing)
    wrong = comparison.compare(eager.calls[warm_ups:], captured.calls, comparison.own_spread(eager.spread))
    noisy = max(eager.spread.values(), default=0.0) > 0.0
    if report.any("doubts about eager", wrong is not None and (wrong.worst < SURE or noisy)):
        report.progress("comparing with a third eager copy")
        apart = list(map(comparison.wider, eager.apart, _apart(source.fresh(), eager.calls)))
        control = comparison.until_apart(eager.calls, apart, warm_ups, report)
        eager = control._replace(drift=control.drift or eager.drift)
        captured = captured._replace(calls=captured.calls[: len(eager.calls) - warm_ups])
        wrong = comparison.compare(eager.calls[warm_ups:], captured.calls, comparison.own_spread(eager.spread))
    spread = eager.spread
    noisy = max(spread.values(), default=0.0) > 0.0
    if report.any("doubts about the capture", wrong is not None and wrong.worst < _DOUBT and noisy):
        report.progress("comparing with a second captured copy")
        again = capture_and_replay(source.fresh(), warm_ups, rounds, report, lambda *_: None)
        spread = comparison.wider(spread, comparison.noise(captured.calls, again.calls))
        wrong = comparison.compare(eager.calls[warm_ups:], captured.calls, comparison.own_spread(spread))
    return Observations(captured, wrong, eager.calls, spread, warm_ups, moved, changing, eager.drift)


def lasting(eager: list[Call], warm_ups: int) -> list[Call]:
    """Return the calls from the capture on, without unnamed state that is new since then, such as a growing list of losses."""
    after = eager[warm_ups:]
    if not warm_ups:
        return after
    there = eager[warm_ups - 1].state.keys()
    lasting = [
        {path: copy for path, copy in call.state.items() if path in there or path.startswith(comparison.COMPARED)}
        for call in after
    ]
    return [call._replace(state=state_of_call) for call, state_of_call in zip(after, lasting, strict=True)]


def pair(source: Source) -> tuple[Subject, Subject]:
    """Return two copies; if a second cannot be built, or differs from the first, return the first twice."""
    first = source.fresh()
    if not source.builds_anew:
        return first, first
    try:
        second = source.fresh()
        alike = tensors.differences(observed(first), observed(second))
        if not any(far > 0 for far in alike.values()):
            return first, second
        why = "a second copy starts with other values"
    except Exception as error:  # noqa: BLE001 - of the user's code
        cause = getattr(error, "error", error)
        why = f"building a second one raised {type(cause).__name__}"
    source.reuse(first, why)
    return first, first


def eager_calls(source: Source, first: Subject, second: Subject, warm_ups: int, report: Any) -> Eager:
    """Return the eager calls of one copy, with those that follow the capture, and how far a second one is from them."""
    report.progress("calling it eagerly")
    start = time.monotonic()
    calls = []
    for number in range(warm_ups + 1):
        began = time.monotonic()
        calls.append(_first_call(first) if number == 0 else eager_call(first, number))
        took = time.monotonic() - began
    took = report.most("the time of a call", took)
    rounds = _REPLAYS if took < _LONG else _FEW_REPLAYS
    while len(calls) < warm_ups + 1 + rounds:
        calls.append(_sharing(eager_call(first, len(calls)), calls[-1]))
        if len(calls) == warm_ups + 1 + rounds and rounds == _REPLAYS and took < _LONG / 3:
            rounds = _MANY_REPLAYS if report.any("what Python changes", _python_changes(calls)) else rounds
    if not source.builds_anew:
        second = source.fresh()
    eager = comparison.until_apart(calls, list(_apart(second, calls)), warm_ups, report)
    worst = max(eager.spread.values(), default=0.0)
    report.step("eager", "ok" if worst < SURE else "differs", _repeats(eager, len(calls), worst), time.monotonic() - start)
    return eager


def _repeats(eager: Eager, made: int, worst: float) -> str:
    """Return a sentence on how far two eager copies differ."""
    if eager.drift is not None:
        return f"{made} calls: two copies part in call {eager.drift.call + 1}, so that later ones are not compared"
    if worst > 0:
        return f"{made} calls, a second copy differs by {worst:.1e}{': not repeatable' if worst >= SURE else ''}"
    return f"{made} calls, a second copy equal to the bit"


def _apart(copy: Subject, calls: list[Call]) -> Iterator[dict[str, float]]:
    """Let another copy make the same calls; yield how far each is from that of the first one."""
    for number, call in enumerate(calls):
        yield tensors.differences(call.left(), eager_call(copy, number, full=False).left())


def _first_call(subject: Subject) -> Call:
    args, kwargs = _inputs(subject, 0)
    why = load.unfit(subject, args, kwargs)
    if why:
        raise load.Misuse(why)
    reached = load.reached(subject, (args, kwargs))
    if any(tensor.is_cuda for tensor in reached):
        return eager_call(subject, 0, given=(args, kwargs))
    with operations.Devices() as devices:
        call = eager_call(subject, 0, given=(args, kwargs))
    if devices.gpu:
        return call
    if reached:
        raise load.Misuse(f"{subject.name} {_ON_CPU_TENSORS}")
    calls = [call]
    for number in range(1, WARM_UPS + 1):
        given = _inputs(subject, number)
        with devices, executed.Lines().followed() as trail:
            calls.append(eager_call(subject, number, given=given))
    if devices.gpu:
        raise load.Misuse(f"{subject.name} does nothing on the GPU in its first call: name what it calls when it does")
    changes = host_only.changed([host_only.Left(call.left(), call.scalars, call.moved) for call in calls])
    if changes:
        raise host_only.WithoutGPUError(subject.name, changes, host_only.deciding_line(trail, changes))
    raise load.Misuse(f"{subject.name} does nothing on the GPU: a graph of it is empty; call it between replays")


_ON_CPU_TENSORS = (
    "works on CPU tensors only (its arguments, state and parameters): move them with .cuda(), a graph holds GPU work"
)


def _inputs(subject: Subject, number: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        return arguments(subject, number)
    except load.Misuse:
        raise
    except BaseException as error:
        raise load.Raised("making the inputs", error) from error


def _python_changes(calls: list[Call]) -> bool:
    """Return whether Python changes something in each call, which a replay does not repeat; more replays show its effect."""
    return bool(_changing(calls)) or any(call.moved - {"cuda-random"} for call in calls)


def _changing(calls: list[Call]) -> dict[str, tuple[Any, Any]]:
    """Return numbers, flags and lengths that differ between the first and the last calls."""
    late = calls[len(calls) // 2 :]
    first, last = late[0].scalars, late[-1].scalars
    return {path: (first[path], value) for path, value in last.items() if path in first and first[path] != value}
