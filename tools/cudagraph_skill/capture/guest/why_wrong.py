"""Explain a wrong replay: the first operation whose inputs or result differ from eager, and every other line that froze."""

from __future__ import annotations

import gc
import linecache
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cudagraph_skill.capture.guest import checks, deciding_line, executed, nodes, operations, stack, tensors

if TYPE_CHECKING:
    from cudagraph_skill.capture.guest.checks import Observations
    from cudagraph_skill.capture.guest.executed import Trail
    from cudagraph_skill.capture.guest.load import Source
    from cudagraph_skill.capture.guest.operations import Operation
    from cudagraph_skill.capture.guest.stack import Frame, Place

_TOLERANCES = {torch.float64: 1e-7, torch.float32: 1e-4}  # relative; below it two results of one operation count as equal
_COARSE = 2e-2  # the tolerance of the dtypes with fewer bits
_MAX_LINES = 12
CAPTURED_PATH = "captured-path"
# Seen beside a small difference, these need not be its cause: an effect, draws on other input, the host's own books
_BY_ROUNDING = ("value", "rng-input", "cpu-work", CAPTURED_PATH)
_RANDOM = ("rand", "normal", "bernoulli", "uniform", "exponential", "multinomial", "geometric", "cauchy")
# What these draw depends on the generator alone, not on the values of a tensor
_GENERATED = re.compile(
    r"aten\.(rand\w*|native_dropout|(uniform|normal|exponential|geometric|cauchy|log_normal|random)_|bernoulli_\.float)\b"
)
_SEEDED = (
    "scaled_dot_product",
    "efficient_attention",
    "flash_attention",
    "cudnn_attention",
    "dropout",
)  # a seed is an argument


class Cause(NamedTuple):
    """A line that explains a failure or a wrong replay; `kind` is fails, wrong or note, `first` marks where it begins.

    `message` continues a sentence whose subject is the line. `library` is the deepest line of a library that the line calls.
    """

    kind: str
    category: str
    place: Place | None
    message: str
    op: str = ""
    error: str = ""
    via: tuple[str, ...] = ()
    first: bool = False
    library: Place | None = None


class Logs(NamedTuple):
    """Recorded operations: of eager calls since the capture, of the captured call, and the memory of each call's inputs.

    `trails` are the lines of the last eager and of the captured call.
    """

    eager: list[list[Operation]]
    graph: list[Operation]
    inputs: list[set[int]]
    trails: tuple[Trail, Trail] = ([], [])


def recorded(source: Source, observations: Observations, last: int) -> Logs:
    """Record eager calls up to the `last` after the capture, and the captured call with the results of that replay."""
    eager, inputs, trail = _eager(source, observations.warm_ups, last)
    graph, captured_trail = _captured(source, observations.warm_ups, last)
    return Logs(eager, graph, inputs, (trail, captured_trail))


def explain(logs: Logs, observations: Observations, exact: bool = False) -> list[Cause]:
    """Return the lines behind a wrong replay, the first divergent one first; [] if the recordings do not show it.

    `exact`: two results of an operation are equal only if they are so to the bit.
    """
    return _one_per_line(_frozen(logs, observations, exact))


def beyond_rounding(causes: list[Cause]) -> list[Cause]:
    """Return the causes that make a difference wrong, however small it is."""
    return [cause for cause in causes if cause.category not in _BY_ROUNDING]


def unrepeatable(source: Source, observations: Observations) -> list[Cause]:
    """Return the lines whose numbers or operations change in every eager call, where eager never repeats itself."""
    eager, *_ = _eager(source, observations.warm_ups, 3)
    numbered: list[tuple[int, Cause]] = []
    for later in eager[1:]:
        numbered += _changes(eager[0], later, observations)
    return _one_per_line(numbered)


def _eager(source: Source, warm_ups: int, last: int) -> tuple[list[list[Operation]], list[set[int]], Trail]:
    """Record eager calls since the one that would be captured.

    Returns their operations, the memory of their inputs, and the lines of the last.
    """
    eager, inputs = [], []
    subject = source.fresh()
    for number in range(warm_ups):
        checks.eager_call(subject, number, full=False)
    for number in range(warm_ups, warm_ups + last + 1):
        args = checks.arguments(subject, number)
        inputs.append({operations.memory(tensor) for tensor in tensors.given(args)})
        with source.lines.followed() as trail, operations.Recorder(trail=trail) as recorder:
            out = subject.call(*args[0], **args[1])
        torch.cuda.synchronize()
        eager.append(_on_host(recorder.log))
        del out, args
    gc.collect()
    return eager, inputs, trail


def _captured(source: Source, warm_ups: int, last: int) -> tuple[list[Operation], Trail]:
    """Record the captured call in a fresh copy; return its operations with the results of replay `last`, and its lines."""
    subject = source.fresh()
    checks.warm_up(subject, warm_ups)
    with source.lines.followed() as trail:
        recorder = operations.Recorder(capturing=True, trail=trail)
        attempt = checks.capture(subject, warm_ups, lambda: recorder)
    if attempt.error is not None:
        raise attempt.error
    nodes.ready(attempt.graph)
    for number in range(warm_ups, warm_ups + last + 1):
        if number > warm_ups:
            tensors.refill(attempt.static, checks.arguments(subject, number))
        attempt.graph.replay()
    torch.cuda.synchronize()
    return _on_host(recorder.log), trail


def _on_host(log: list[Operation]) -> list[Operation]:
    """Return the operations with the samples of their results copied to the CPU."""
    return [operation._replace(results=tuple(sample.cpu() for sample in operation.results)) for operation in log]


def _frozen(logs: Logs, observations: Observations, exact: bool) -> list[tuple[int, Cause]]:
    """Return each line where the captured call differs from the last eager one, with the number of its operation."""
    then, now, graph = logs.eager[0], logs.eager[-1], logs.graph
    numbered: list[tuple[int, Cause]] = []
    for number, (eager, replayed) in enumerate(zip(now, graph, strict=False)):
        earlier = then[number] if number < len(then) and _is_same_operation(then[number], eager) else None
        if not _is_same_operation(eager, replayed):
            parted = _while_capturing(eager, replayed) if earlier else _branch(eager, replayed, observations)
            return [*_causes(numbered), (number, _where_they_part(parted, logs, number))]
        cause = _compared(eager, replayed, earlier, logs, observations, exact)
        if cause is not None:
            numbered.append((number, cause))
    numbered += [(number, _where_they_part(cause, logs, number)) for number, cause in _longer(now, graph, observations)]
    return _causes(numbered) or numbered[:1]


def _where_they_part(cause: Cause, logs: Logs, number: int) -> Cause:
    """Return the cause of a frozen branch at the last line that both calls ran before operation `number`, if they part there."""
    if cause.category != "frozen-branch":
        return cause
    parts = []
    for trail, log in zip(logs.trails, (logs.eager[-1], logs.graph), strict=True):
        begin = max(log[number - 1].at - 1, 0) if 0 < number <= len(log) else 0
        parts.append(trail[begin : log[number].at if number < len(log) else None])
    line = executed.parting(*parts)
    return cause._replace(place=line) if line else cause


def _causes(numbered: list[tuple[int, Cause]]) -> list[tuple[int, Cause]]:
    """Return the lines that are causes, without operations that only show an effect."""
    return [pair for pair in numbered if pair[1].category != "value"]


def _changes(then: list[Operation], now: list[Operation], observations: Observations) -> list[tuple[int, Cause]]:
    """Return the lines where a later eager call of the same copy uses another number or another operation."""
    numbered: list[tuple[int, Cause]] = []
    for number, (eager, earlier) in enumerate(zip(now, then, strict=False)):
        if not _is_same_operation(eager, earlier):
            return [*numbered, (number, _branch(eager, earlier, observations))]
        pairs = _other_numbers(eager, earlier)
        if pairs:
            numbered.append((number, _on_cpu(eager, earlier) if eager.host else _number(eager, pairs[0], observations)))
    return numbered + _longer(now, then, observations)


def _longer(now: list[Operation], captured: list[Operation], observations: Observations) -> list[tuple[int, Cause]]:
    """Return the cause of the first operation that one of two otherwise equal recordings has more; [] if none has."""
    end = min(len(now), len(captured))
    if len(now) > end:
        return [(end, _extra(now[end], captured[-1:], True, observations))]
    if len(captured) > end:
        return [(end, _extra(captured[end], now[-1:], False, observations))]
    return []


def _is_same_operation(first: Operation, second: Operation) -> bool:
    """Return whether two recordings did the same operation at the same lines, on any objects."""
    return first.name == second.name and first.shapes == second.shapes and _lines(first) == _lines(second)


def _lines(operation: Operation) -> list[tuple[str, int]]:
    return [(frame.path, frame.line) for frame in operation.stack]


def _compared(
    eager: Operation, replayed: Operation, earlier: Operation | None, logs: Logs, observations: Observations, exact: bool
) -> Cause | None:
    """Return how the replay of one operation differs from eager; None if it does not."""
    equal = _has_equal_results(eager, replayed, exact)
    changes = earlier is None or not _has_equal_results(eager, earlier, exact)
    if replayed.missed and changes:
        place = deciding_line.first(replayed.stack, deciding_line.stream_block)
        message = "puts work on a stream that is not capturing: the graph does not have it"
        return _wrong("stream-missing", place.place if place else replayed.place, message, replayed)
    pairs = _other_numbers(eager, replayed)
    if eager.host and replayed.host:
        return _on_cpu(eager, replayed) if pairs or not equal else None
    if pairs:
        return _number(eager, pairs[0], observations)
    if equal:
        return None
    return _rebound(eager, earlier, logs, observations) or _other_value(eager, replayed)


def _wrong(category: str, place: Place | None, message: str, operation: Operation, library: Frame | None = None) -> Cause:
    """Return a cause that an operation showed; the frames that lead to it go with it.

    `library` is the library's frame to name, if it is not the one that called the operation.
    """
    via = tuple(stack.via([frame.place for frame in operation.stack]))
    return Cause(
        "wrong", category, place, message, operation.name, via=via, library=library.place if library else operation.library
    )


def _other_value(eager: Operation, replayed: Operation) -> Cause:
    """Describe a result that differs although numbers and inputs do not."""
    if any(word in eager.name for word in (*_RANDOM, "dropout")) and not _drops_alike(eager, replayed):
        message = f"draws other numbers than eager ({_short(eager)}): its generator was set within the call, or the draw was made before"
        return _wrong("rng-reset" if _GENERATED.match(eager.name) else "rng-input", eager.place, message, eager)
    return _wrong("value", eager.place, f"is the first operation whose result is not eager's ({_short(eager)})", eager)


def _drops_alike(eager: Operation, replayed: Operation) -> bool:
    """Return whether two dropouts have the same mask, their second result: then it is their input that differs."""
    masks = [operation.results[1:2] for operation in (eager, replayed)]
    return "dropout" in eager.name and all(masks) and torch.equal(masks[0][0], masks[1][0])


def _has_equal_results(first: Operation, second: Operation, exact: bool = False) -> bool:
    return not any(
        tensors.difference(tensors.to_host(a), tensors.to_host(b)) > (0.0 if exact else _TOLERANCES.get(a.dtype, _COARSE))
        for a, b in zip(first.results, second.results, strict=False)
    )


def _other_numbers(eager: Operation, replayed: Operation) -> list[tuple[Any, Any]]:
    """Return the numbers that changed since the capture, as (then, now)."""
    seeded = any(word in eager.name for word in _SEEDED)
    pairs = [(a, b) for a, b in zip(replayed.scalars, eager.scalars, strict=False) if a != b and not _is_nan(a)]
    return [pair for pair in pairs if not seeded or isinstance(pair[0], (float, bool))]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _on_cpu(eager: Operation, replayed: Operation) -> Cause:
    random = any(word in eager.name for word in _RANDOM)
    does = "draws on the CPU" if random else "works on the CPU"
    message = f"{does}, once at capture: every replay uses that result ({_short(replayed)})"
    return _wrong("cpu-torch-random" if random else "cpu-work", eager.place, message, eager)


def _changing(observations: Observations) -> dict[str, str]:
    """Return the names of attributes, entries and variables that change from call to call, with their paths."""
    varying: dict[str, str] = {}
    for path in observations.changing:
        words = re.findall(r"[A-Za-z_]\w*", path.removeprefix("len("))
        if words:
            varying.setdefault(words[-1], path)
    return varying


def _number(eager: Operation, pair: tuple[Any, Any], observations: Observations) -> Cause:
    """Describe a number that became part of the graph."""
    names = _changing(observations)
    frame = deciding_line.first(eager.stack, lambda frame: deciding_line.reading(frame, names)) or deciding_line.first(
        eager.stack, deciding_line.volatile
    )
    then, now = (f"{number:.6g}" if isinstance(number, float) else repr(number)[:40] for number in pair)
    read = [path for name, path in names.items() if frame and name in _line(frame)]
    source = f" (from {', '.join(read[:2])})" if read else ""
    message = (
        f"makes a number{source} part of the graph: {_short(eager)} gets {then} in every replay, eager passes {now} by now"
    )
    place = frame.place if frame else eager.place
    inner = deciding_line.first(eager.inside, lambda frame: deciding_line.reading(frame, names))
    return _wrong(_drawn(frame, observations) or "python-number", place, message, eager, inner)


def _rebound(eager: Operation, earlier: Operation | None, logs: Logs, observations: Observations) -> Cause | None:
    """Describe an input from outside the call that is a different tensor than at capture; None if there is none."""
    if earlier is None:
        return None
    for (now, begins, made), (then, began, made_then) in zip(eager.inputs, earlier.inputs, strict=False):
        if now in logs.inputs[-1] or then in logs.inputs[0]:
            continue  # arguments, which are copied into those of the capture
        if now and then and begins - now != began - then:
            return _choice(eager, earlier, observations)  # another part of a tensor, such as another row
        if not (made == made_then == -1 and begins != began):
            continue
        maker = _maker(now, logs.eager[-2]) if len(logs.eager) > 1 else None
        if maker is None or maker.place is None:
            return _choice(eager, earlier, observations)
        bound = deciding_line.first(maker.stack, deciding_line.binding)
        message = "binds a new tensor in each call, but the graph goes on with the one that was bound at capture"
        return _wrong("rebinding", bound.place if bound else maker.place, message, maker)
    return None


def _maker(address: int, log: list[Operation]) -> Operation | None:
    """Return the operation of a call that allocated the memory at an address."""
    return next((operation for operation in log if address and address in operation.outputs), None)


def _choice(eager: Operation, earlier: Operation, observations: Observations) -> Cause:
    """Describe a choice among tensors, layers or entries that Python made."""
    frame = _parting(eager.stack, earlier.stack)
    decides = _decider(frame, observations) if frame else None
    message = "chooses among tensors in Python: every replay uses those chosen at capture"
    place = decides.place if decides else eager.place
    return _wrong(_drawn(decides, observations) or "frozen-branch", place, message, eager)


def _parting(first: tuple[Frame, ...], second: tuple[Frame, ...]) -> Frame | None:
    """Return the innermost frame that two stacks share, before their lines or objects differ."""
    last = None
    for a, b in zip(first, second, strict=False):
        if a.owner != b.owner:
            break
        last = a
        if (a.path, a.line) != (b.path, b.line):
            break
    return last or (first[-1] if first else None)


def _decider(frame: Frame, observations: Observations) -> Frame:
    """Return the line that decides what a frame does: one that reads a changing value, else the condition before it."""
    names = _changing(observations)
    line = deciding_line.reading(frame, names)
    if line != frame.line:
        line = deciding_line.condition(frame) or line or deciding_line.volatile(frame) or frame.line
    return frame._replace(line=line)


def _branch(eager: Operation, captured: Operation, observations: Observations) -> Cause:
    """Describe where eager takes another branch than the captured call."""
    if captured.optimizer != eager.optimizer or (captured.optimizer and "zero" in captured.name):
        message = "made its state within the capture, so each replay makes it anew: step once before the capture"
        return _wrong("optimizer-state", captured.place or eager.place, message, captured)
    decides = _decision(eager.stack, captured.stack, observations)
    at = f" of line {captured.place.line}" if captured.place else ""
    message = f"decides what runs: every replay runs {_short(captured)}{at}, eager by now runs {_short(eager)}"
    place = decides.place if decides else (eager.place or captured.place)
    inner = _decision(eager.inside, captured.inside, observations)
    return _wrong(_drawn(decides, observations) or "frozen-branch", place, message, eager, inner)


def _while_capturing(eager: Operation, captured: Operation) -> Cause:
    """Describe where a call that is captured goes another way than the same call in eager."""
    message = f"takes another path while a stream captures: the graph has {_short(captured)}, eager runs {_short(eager)}"
    frame = _parting(eager.inside, captured.inside)
    return _wrong(CAPTURED_PATH, captured.place or eager.place, message, captured, frame)


def _extra(extra: Operation, before: list[Operation], eager_has_more: bool, observations: Observations) -> Cause:
    """Describe the first operation of the side that goes on where the other has ended."""
    if extra.optimizer:
        return _wrong("optimizer-state", extra.place, "does other work than at capture: its state was made there", extra)
    decides = _decision(extra.stack, before[0].stack if before else (), observations)
    differs = "eager by now does more than was captured" if eager_has_more else "the graph repeats what eager did only then"
    place = decides.place if decides else extra.place
    message = f"decides what runs: {differs} ({_short(extra)})"
    inner = _decision(extra.inside, before[0].inside if before else (), observations)
    return _wrong(_drawn(decides, observations) or "frozen-branch", place, message, extra, inner)


def _decision(first: tuple[Frame, ...], second: tuple[Frame, ...], observations: Observations) -> Frame | None:
    """Return the line that sends two calls different ways: a condition where they part or below that reads what changes."""
    parted = [frame for frame in (_parting(first, second), _parting(second, first)) if frame is not None]
    if not parted:
        return None
    frames = [*parted, *_below(first, parted), *_below(second, parted)]
    conditions = [frame._replace(line=line) for frame in frames if (line := deciding_line.condition(frame))]
    names = _changing(observations)
    changing = [frame for frame in conditions if _reads_change(frame, names)]
    return next(iter(changing or conditions), None) or _decider(parted[0], observations)


def _below(frames: tuple[Frame, ...], parted: list[Frame]) -> list[Frame]:
    """Return the frames inside the innermost one where the calls part."""
    depth = max((number for number, frame in enumerate(frames) if frame in parted), default=0)
    return [frame for frame in frames if frame not in parted and frames.index(frame) >= depth]


def _reads_change(frame: Frame, names: dict[str, str]) -> bool:
    """Return whether the frame's own line reads a value that changes from call to call."""
    return frame.line in (deciding_line.reading(frame, names), deciding_line.volatile(frame))


def _drawn(frame: Frame | None, observations: Observations) -> str:
    """Return the category of a random number or clock that a line reads; "" if it reads neither."""
    text = _line(frame) if frame else ""
    if re.search(r"\b(time|perf_counter|monotonic|time_ns|now)\(", text):
        return "clock"
    for generator in ("python-random", "numpy-random", "cpu-torch-random"):
        if generator in observations.moved and re.search(r"rand|choice|shuffle|uniform|sample|normal|perm|gauss", text):
            return generator
    return ""


def _line(frame: Frame) -> str:
    return linecache.getline(frame.path, frame.line)


def _short(operation: Operation) -> str:
    """Return `add` for `aten.add.Tensor`."""
    return operation.name.removeprefix("aten.").partition(".")[0]


def _one_per_line(numbered: list[tuple[int, Cause]]) -> list[Cause]:
    """Return the first cause of each line, in the order of the operations; the very first is marked."""
    unique: dict[Place | None, Cause] = {}
    for _, cause in sorted(numbered, key=lambda pair: pair[0]):
        unique.setdefault(cause.place, cause)
    causes = list(unique.values())[:_MAX_LINES]
    return [cause._replace(first=number == 0) for number, cause in enumerate(causes)]
