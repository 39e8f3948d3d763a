"""Explain a wrong replay: the first operation whose inputs or result differ from eager, and every other line that froze."""

from __future__ import annotations

import gc
import linecache
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cudagraph_skill.capture.guest import checks, deciding_line, nodes, operations, stack, tensors

if TYPE_CHECKING:
    from cudagraph_skill.capture.guest.checks import Seen
    from cudagraph_skill.capture.guest.load import Source
    from cudagraph_skill.capture.guest.operations import Operation
    from cudagraph_skill.capture.guest.stack import Frame, Place

_FAR = {torch.float64: 1e-7, torch.float32: 1e-4}  # relative; below it two results of one operation count as equal
_MOST = 12  # lines that are named


class Cause(NamedTuple):
    """A line that explains a failure or a wrong replay; `kind` is fails, wrong or note, `first` marks where it begins."""

    kind: str
    category: str
    place: Place | None
    said: str
    op: str = ""
    error: str = ""
    via: tuple[str, ...] = ()
    first: bool = False


class Logs(NamedTuple):
    """Recorded operations: of eager calls since the capture, of the captured call, and the memory of each call's inputs."""

    eager: list[list[Operation]]
    graph: list[Operation]
    given: list[set[int]]


def explain(source: Source, seen: Seen) -> list[Cause]:
    """Return the lines behind a wrong replay, the first divergent one first; [] if the recordings do not show it."""
    assert seen.wrong is not None
    last = max(1, seen.wrong.calls[0])
    eager, given = _eager(source, seen.warm_ups, last)
    return _marked(_frozen(Logs(eager, _captured(source, seen.warm_ups, last), given), last, seen))


def restless(source: Source, seen: Seen) -> list[Cause]:
    """Return the lines whose numbers or operations change in every eager call, where eager never repeats itself."""
    eager, _ = _eager(source, seen.warm_ups, 3)
    numbered: list[tuple[int, Cause]] = []
    for later in eager[1:]:
        numbered += _changes(eager[0], later, seen)
    return _marked(numbered)


def _eager(source: Source, warm_ups: int, last: int) -> tuple[list[list[Operation]], list[set[int]]]:
    """Record eager calls since the one that would be captured; return their operations and the memory of their inputs."""
    eager, given = [], []
    subject = source.fresh()
    for number in range(warm_ups):
        checks.eager_call(subject, number, full=False)
    for number in range(warm_ups, warm_ups + last + 1):
        args = checks.arguments(subject, number)
        given.append({operations.memory(each) for each in tensors.tensors(args)})
        with operations.Recorder() as recorder:
            out = subject.call(*args[0], **args[1])
        torch.cuda.synchronize()
        eager.append([each._replace(results=tuple(one.cpu() for one in each.results)) for each in recorder.log])
        del out, args
    gc.collect()
    return eager, given


def _captured(source: Source, warm_ups: int, last: int) -> list[Operation]:
    """Record the captured call in a fresh copy; return its operations with the results of replay `last`."""
    subject = source.fresh()
    checks.warm_up(subject, warm_ups)
    recorder = operations.Recorder()
    shot = checks.capture(subject, warm_ups, lambda: recorder)
    if shot.error is not None:
        raise shot.error
    nodes.ready(shot.graph)
    for number in range(warm_ups, warm_ups + last + 1):
        if number > warm_ups:
            tensors.put(shot.static, checks.arguments(subject, number))
        else:
            torch.cuda.set_rng_state(shot.random)
        shot.graph.replay()
    torch.cuda.synchronize()
    return [each._replace(results=tuple(one.cpu() for one in each.results)) for each in recorder.log]


def _frozen(logs: Logs, last: int, seen: Seen) -> list[tuple[int, Cause]]:
    """Return each line where the captured call differs from eager call `last`, with the number of its operation."""
    then, now, graph = logs.eager[0], logs.eager[last], logs.graph
    numbered: list[tuple[int, Cause]] = []
    for number, (eager, held) in enumerate(zip(now, graph, strict=False)):
        if not _alike(eager, held):
            return [*_causes(numbered), (number, _branch(eager, held, seen))]
        earlier = then[number] if number < len(then) and _alike(then[number], eager) else None
        cause = _one(eager, held, earlier, logs, last, seen)
        if cause is not None:
            numbered.append((number, cause))
    if len(now) != len(graph):
        longer = now if len(now) > len(graph) else graph
        end = min(len(now), len(graph))
        numbered.append((end, _extra(longer[end], (graph if longer is now else now)[-1:], longer is now, seen)))
    return _causes(numbered) or numbered[:1]


def _alike(one: Operation, other: Operation) -> bool:
    """Return whether two recordings did the same operation at the same lines, on any objects."""
    lines = ([(each.path, each.line) for each in frames] for frames in (one.stack, other.stack))
    return one.name == other.name and one.shapes == other.shapes and next(lines) == next(lines)


def _causes(numbered: list[tuple[int, Cause]]) -> list[tuple[int, Cause]]:
    """Return the causes that are causes, without operations that only show an effect."""
    return [pair for pair in numbered if pair[1].category != "value"]


def _changes(then: list[Operation], now: list[Operation], seen: Seen) -> list[tuple[int, Cause]]:
    """Return the lines where a later eager call of the same copy uses another number or another operation."""
    numbered: list[tuple[int, Cause]] = []
    for number, (eager, held) in enumerate(zip(now, then, strict=False)):
        if not _alike(eager, held):
            return [*numbered, (number, _branch(eager, held, seen))]
        pairs = _other_numbers(eager, held)
        if pairs:
            numbered.append((number, _on_cpu(eager, held) if eager.host else _number(eager, pairs[0], seen)))
    if len(now) != len(then):
        longer, end = (now if len(now) > len(then) else then), min(len(now), len(then))
        numbered.append((end, _extra(longer[end], (then if longer is now else now)[-1:], longer is now, seen)))
    return numbered


def _one(  # noqa: PLR0911 - one return for each way to be wrong
    eager: Operation, held: Operation, earlier: Operation | None, logs: Logs, last: int, seen: Seen
) -> Cause | None:
    """Return how the replay of one operation differs from eager; None if it does not."""
    same = _same(eager, held)
    if not held.captured and not held.host and held.results and not same:
        place = deciding_line.first(held.stack, deciding_line.stream_block)
        said = "puts work on a stream that is not capturing: the graph does not have it"
        return Cause("wrong", "stream-missing", place.place if place else held.place, said, held.name, via=_via(held.stack))
    pairs = _other_numbers(eager, held)
    if eager.host and held.host:
        return _on_cpu(eager, held) if pairs or not same else None
    if pairs:
        return _number(eager, pairs[0], seen)
    if same:
        return None
    rebound = _rebound(eager, earlier, logs, last, seen)
    if rebound is not None:
        return rebound
    said = f"is the first operation whose result is not eager's ({_short(eager.name)})"
    if any(word in eager.name for word in (*_RANDOM, "dropout")):
        said = f"draws other numbers than eager ({_short(eager.name)}): its generator was set within the call, or the draw was made before"
        return Cause("wrong", "rng-reset", eager.place, said, eager.name, via=_via(eager.stack))
    return Cause("wrong", "value", eager.place, said, eager.name, via=_via(eager.stack))


def _same(one: Operation, other: Operation) -> bool:
    for a, b in zip(one.results, other.results, strict=False):
        if tensors.difference(tensors.kept(a), tensors.kept(b)) > _FAR.get(a.dtype, 2e-2):
            return False
    return True


_SEEDED = (
    "scaled_dot_product",
    "efficient_attention",
    "flash_attention",
    "cudnn_attention",
    "dropout",
)  # seeds among their numbers


def _other_numbers(eager: Operation, held: Operation) -> list[tuple[Any, Any]]:
    """Return the numbers that changed since the capture, as (then, now)."""
    seeded = any(word in eager.name for word in _SEEDED)
    pairs = [(a, b) for a, b in zip(held.scalars, eager.scalars, strict=False) if a != b and not _nan(a)]
    return [each for each in pairs if not seeded or isinstance(each[0], (float, bool))]


def _nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


_RANDOM = ("rand", "normal", "bernoulli", "uniform", "exponential", "multinomial", "geometric", "cauchy")


def _on_cpu(eager: Operation, held: Operation) -> Cause:
    random = any(word in eager.name for word in _RANDOM)
    said = "draws on the CPU" if random else "works on the CPU"
    said += f", once at capture: every replay goes on with that result ({_short(held.name)})"
    return Cause("wrong", "cpu-torch-random" if random else "cpu-work", eager.place, said, eager.name, via=_via(eager.stack))


def _changing(seen: Seen) -> dict[str, str]:
    """Return the names of attributes, entries and variables that change from call to call, with their paths."""
    varying: dict[str, str] = {}
    for path in seen.changing:
        words = re.findall(r"[A-Za-z_]\w*", path.removeprefix("len("))
        if words:
            varying.setdefault(words[-1], path)
    return varying


def _number(eager: Operation, pair: tuple[Any, Any], seen: Seen) -> Cause:
    """Describe a number that became part of the graph."""
    names = _changing(seen)
    frame = deciding_line.first(eager.stack, lambda each: deciding_line.reading(each, names)) or deciding_line.first(
        eager.stack, deciding_line.volatile
    )
    was, now = (f"{each:.6g}" if isinstance(each, float) else repr(each)[:40] for each in pair)
    read = [path for name, path in names.items() if frame and name in _line(frame)]
    which = f" (from {', '.join(read[:2])})" if read else ""
    said = (
        f"makes a number{which} part of the graph: {_short(eager.name)} gets {was} in every replay, eager passes {now} by now"
    )
    place = frame.place if frame else eager.place
    return Cause("wrong", _drawn(frame, seen) or "python-number", place, said, eager.name, via=_via(eager.stack))


def _rebound(eager: Operation, earlier: Operation | None, logs: Logs, last: int, seen: Seen) -> Cause | None:
    """Describe an input from outside the call that is a different tensor than at capture; None if there is none."""
    if earlier is None:
        return None
    for (now, begins, made), (then, began, made_then) in zip(eager.inputs, earlier.inputs, strict=False):
        if not (made == made_then == -1 and begins != began) or now in logs.given[last] or then in logs.given[0]:
            continue
        maker = _maker(now, logs.eager[last - 1]) if last else None
        if maker is None or maker.place is None:
            return _choice(eager, earlier, seen)
        bound = deciding_line.first(maker.stack, deciding_line.binding)
        said = "binds a new tensor in each call, but the graph goes on with the one that was bound at capture"
        return Cause("wrong", "rebinding", bound.place if bound else maker.place, said, maker.name, via=_via(maker.stack))
    return None


def _maker(address: int, log: list[Operation]) -> Operation | None:
    """Return the operation of a call that allocated the memory at an address."""
    return next((operation for operation in log if address and address in operation.outputs), None)


def _choice(eager: Operation, earlier: Operation, seen: Seen) -> Cause:
    """Describe a choice among tensors, layers or entries that Python made."""
    frame = _parting(eager.stack, earlier.stack)
    decides = _decider(frame, seen) if frame else None
    said = "chooses among tensors in Python: every replay uses those chosen at capture"
    return Cause(
        "wrong",
        _drawn(decides, seen) or "frozen-branch",
        decides.place if decides else eager.place,
        said,
        eager.name,
        via=_via(eager.stack),
    )


def _parting(one: tuple[Frame, ...], other: tuple[Frame, ...]) -> Frame | None:
    """Return the innermost frame that two stacks share, before their lines or objects differ."""
    last = None
    for a, b in zip(one, other, strict=False):
        if a.owner != b.owner:
            break
        last = a
        if (a.path, a.line) != (b.path, b.line):
            break
    return last or (one[-1] if one else None)


def _decider(frame: Frame, seen: Seen) -> Frame:
    """Return the line that decides what a frame does: one that reads a changing value, else the condition before it."""
    names = _changing(seen)
    line = deciding_line.reading(frame, names)
    if line != frame.line:
        line = deciding_line.condition(frame) or line or deciding_line.volatile(frame) or frame.line
    return frame._replace(line=line)


def _branch(eager: Operation, held: Operation, seen: Seen) -> Cause:
    """Describe where eager takes another branch than the captured call."""
    if held.optimizer != eager.optimizer or (held.optimizer and "zero" in held.name):
        said = "made its state within the capture, so each replay makes it anew: step once before the capture"
        return Cause("wrong", "optimizer-state", held.place or eager.place, said, held.name, via=_via(held.stack))
    decides = _decision(eager.stack, held.stack, seen)
    at = f" of line {held.place.line}" if held.place else ""
    said = f"decides what runs: the graph holds {_short(held.name)}{at} for ever, eager by now does {_short(eager.name)}"
    place = decides.place if decides else (eager.place or held.place)
    return Cause("wrong", _drawn(decides, seen) or "frozen-branch", place, said, eager.name, via=_via(eager.stack))


def _extra(extra: Operation, before: list[Operation], eager_has_more: bool, seen: Seen) -> Cause:
    """Describe the first operation of the side that goes on where the other has ended."""
    if extra.optimizer:
        said = "does other work than at capture: its state was made there"
        return Cause("wrong", "optimizer-state", extra.place, said, extra.name, via=_via(extra.stack))
    decides = _decision(extra.stack, before[0].stack if before else (), seen)
    who = "eager by now does more than was captured" if eager_has_more else "the graph repeats what eager did only then"
    place = decides.place if decides else extra.place
    said = f"decides what runs: {who} ({_short(extra.name)})"
    return Cause("wrong", _drawn(decides, seen) or "frozen-branch", place, said, extra.name, via=_via(extra.stack))


def _decision(one: tuple[Frame, ...], other: tuple[Frame, ...], seen: Seen) -> Frame | None:
    """Return the line that sends two calls different ways: a condition where they part or below that reads what changes."""
    parted = [each for each in (_parting(one, other), _parting(other, one)) if each is not None]
    below = [
        each
        for frames in (one, other)
        for each in frames
        if parted and each not in parted and frames.index(each) >= _depth(frames, parted)
    ]
    found = [each._replace(line=line) for each in (*parted, *below) if (line := deciding_line.condition(each))]
    names = _changing(seen)
    telling = [
        each for each in found if deciding_line.reading(each, names) == each.line or deciding_line.volatile(each) == each.line
    ]
    if telling or found:
        return (telling or found)[0]
    return _decider(parted[0], seen) if parted else None


def _depth(frames: tuple[Frame, ...], parted: list[Frame]) -> int:
    return max((number for number, each in enumerate(frames) if each in parted), default=0)


def _drawn(frame: Frame | None, seen: Seen) -> str:
    """Return the category of a random number or clock that a line reads; "" if it reads neither."""
    text = _line(frame) if frame else ""
    if re.search(r"\b(time|perf_counter|monotonic|time_ns|now)\(", text):
        return "clock"
    for generator in ("python-random", "numpy-random", "cpu-torch-random"):
        if generator in seen.moved and re.search(r"rand|choice|shuffle|uniform|sample|normal|perm|gauss", text):
            return generator
    return ""


def _line(frame: Frame) -> str:
    return linecache.getline(frame.path, frame.line)


def _via(frames: tuple[Frame, ...]) -> tuple[str, ...]:
    return tuple(stack.via([each.place for each in frames]))


def _short(name: str) -> str:
    return name.removeprefix("aten.").partition(".")[0]


def _marked(numbered: list[tuple[int, Cause]]) -> list[Cause]:
    """Return each line once, in the order of the operations, the first one marked."""
    unique: dict[Place | None, Cause] = {}
    for _, cause in sorted(numbered, key=lambda each: each[0]):
        unique.setdefault(cause.place, cause)
    causes = list(unique.values())[:_MOST]
    return [each._replace(first=number == 0) for number, each in enumerate(causes)]
