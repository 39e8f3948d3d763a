"""Cut a timeline into steps, and measure each: wall time, the GPU's, idle time by what ends it, what a capture would refuse."""

from __future__ import annotations

import re
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.decide.timeline import Range
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cudagraph_skill.decide.timeline import Call, Timeline, Work

PROFILER_STEP = "ProfilerStep#"
WHOLE = "the whole trace"
_WAITS = re.compile(
    r"^(cuda|cu)(Stream|Device|Event|Ctx)Synchronize|^cudaMemcpy(2D|3D|ToSymbol|FromSymbol)?(_v\d+|_ptsz)*$|^cuMemcpy(Dto[HD]|HtoD)(_v\d+)?$"
)
_ALLOCATES = re.compile(r"^(cuda|cu)(Malloc|MallocHost|HostAlloc|Free|FreeHost|MemAlloc|MemFree|MemCreate|MemMap)(_v\d+)?$")
_COLLECTIVE = re.compile(r"^nccl")
_FOLLOWS = 0.05  # of a step: steps that begin as soon after the end of the one before follow on each other
_PAUSE = 1e-3  # seconds: a shorter one between two operations is Python's part of them
_LONGEST = 40  # characters of a range's name in a message
_NUMBERS = ("wall", "busy", "nodes", "in_graphs", "late", "waits", "other", "collectives", "host")


class Refused(NamedTuple):
    """What a capture does not allow: a call of CUDA, or a copy of pageable memory, and the operation that made it, if known."""

    what: str
    operation: str


class Step(NamedTuple):
    """One step, in seconds: `late`, `waits` and `other` divide the time before its work in which the GPU has nothing to do.

    `late` ends with a launch that came after the GPU had run dry, `waits` with one after the CPU had waited for the GPU, and
    `other` with work that was launched before: it waited for another stream, a copy or another rank, and would in a graph.
    `nodes` are its kernels, copies and fills, `in_graphs` those that graph launches started, `collectives` the time in NCCL's
    kernels. `host` is the time in which the CPU neither runs an operation nor calls CUDA, of pauses too long for overhead.
    `begin` and `end` are where its range lies on the clock of the trace.
    """

    name: str
    wall: float
    busy: float
    nodes: float
    in_graphs: float
    late: float
    waits: float
    other: float
    collectives: float
    host: float
    refused: Counter[Refused]
    kernels: Counter[str]
    begin: float = 0.0
    end: float = 0.0

    @property
    def in_kernels(self) -> float:
        """Return the seconds of all kernels, copies and fills together, also where they overlap."""
        return sum(self.kernels.values()) / 1e9

    @property
    def idle(self) -> float:
        """Return the time in which the GPU does nothing."""
        return max(0.0, self.wall - self.busy)


class Measured(NamedTuple):
    """The steps of a trace that count, and `left_out`, those before them that may be warm-up, on the busiest of `gpus`.

    `unread` is the work that has no usable times.
    """

    maker: str
    gpu: str
    gpus: int
    steps: Sequence[Step]
    left_out: int
    unread: int = 0

    @property
    def typical(self) -> Step:
        """Return the step whose wall time is the median, with the medians of all numbers: steps overlap on the GPU."""
        middle = sorted(self.steps, key=lambda step: step.wall)[(len(self.steps) - 1) // 2]
        numbers = {name: statistics.median(getattr(step, name) for step in self.steps) for name in _NUMBERS}
        return middle._replace(**numbers)


def measured(timeline: Timeline, name: str = "") -> Measured:
    """Measure the steps of a timeline: the ranges whose names begin with `name`, those of torch's profiler, or all of it.

    Raises:
        SkillError: no range has such a name, or the GPU did nothing for any.
    """
    ranges = _steps(timeline, name)
    idle = list(_gaps(timeline.work))
    shares, ended = _shared_out(timeline.work, ranges), _shared_out([work for _, work in idle], ranges)
    before = {work: work.start - begin for begin, work in idle}
    pauses = _pauses([*timeline.on_cpu, *((edge, edge) for named in ranges for edge in named[1:])])
    began = [call.start for call in timeline.calls]
    waited, calls = _waited(timeline.calls), timeline.calls
    parts = [
        _Part(named, wall, work, [(before[item], item) for item in items], _within(calls, began, named), waited, pauses)
        for named, wall, work, items in zip(ranges, _walls(ranges, shares), shares, ended, strict=True)
    ]
    steps = [_step(part) for part in parts if part.work]
    if not steps:
        raise SkillError(
            f"skill decide: the GPU did nothing in {name or PROFILER_STEP}: name a range around the launches with --step"
        )
    first = 1 if len(steps) > 2 and not name else 0  # the first of a schedule may still be warm-up
    return Measured(timeline.maker, timeline.gpu, timeline.gpus, steps[first:], first, timeline.unread)


def _steps(timeline: Timeline, name: str) -> list[Range]:
    exact = [named for named in timeline.ranges if named.name == name]
    chosen = exact or [named for named in timeline.ranges if named.name.startswith(name or PROFILER_STEP)]
    if chosen:
        return _outermost(chosen)
    if name:
        there = ", ".join(dict.fromkeys(named.name for named in timeline.ranges if len(named.name) < _LONGEST)) or "none"
        raise SkillError(f"skill decide: no range of the trace begins with `{name}`; it has: {there[:400]}")
    return [Range(WHOLE, min(work.asked for work in timeline.work), max(work.end for work in timeline.work))]


def _outermost(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges that lie in no other."""
    found: list[Range] = []
    for named in sorted(ranges, key=lambda named: (named.start, -named.end)):
        if not found or named.start >= found[-1].end:
            found.append(named)
    return found


def _shared_out(every: Sequence[Work], ranges: Sequence[Range]) -> list[list[Work]]:
    """Return the work of each range: what was launched in it."""
    starts = [named.start for named in ranges]
    shares: list[list[Work]] = [[] for _ in ranges]
    for work in every:
        number = bisect_right(starts, work.asked) - 1
        if number >= 0 and work.asked < ranges[number].end:
            shares[number].append(work)
    return shares


def _walls(ranges: Sequence[Range], shares: Sequence[list[Work]]) -> list[float]:
    """Return the wall time of each step: up to the next one that follows on it, else up to the end of its own work."""
    walls = []
    for number, (named, work) in enumerate(zip(ranges, shares, strict=True)):
        following = ranges[number + 1].start if number + 1 < len(ranges) else None
        if following is not None and following - named.end <= _FOLLOWS * (named.end - named.start):
            walls.append(following - named.start)
        else:
            walls.append(max([named.end, *(item.end for item in work)]) - named.start)
    return walls


def _within(calls: Sequence[Call], began: Sequence[float], named: Range) -> Sequence[Call]:
    """Return the calls of a range; `began` are the starts of all, in order."""
    return calls[bisect_left(began, named.start) : bisect_left(began, named.end)]


class _Part(NamedTuple):
    """What one step is measured by: its work, the gaps that some of it ended, its calls, the pauses of the CPU.

    `waited` are the moments in the whole trace at which the CPU had waited: that before its first work is in another step.
    """

    named: Range
    wall: float
    work: list[Work]
    gaps: list[tuple[float, Work]]
    calls: Sequence[Call]
    waited: Sequence[float]
    pauses: Sequence[tuple[float, float]]


def _step(part: _Part) -> Step:
    named, work = part.named, part.work
    late, waits, other = _idle(part.gaps, part.waited)
    return Step(
        named.name,
        part.wall,
        _busy(work),
        len(work),
        sum(item.in_graph for item in work),
        late,
        waits,
        other,
        sum(item.end - item.start for item in work if _COLLECTIVE.match(item.name)),
        sum(max(0.0, min(end, named.end) - max(start, named.start)) for start, end in part.pauses),
        _refused(work, part.calls),
        _times(work),
        named.start,
        named.end,
    )


def _times(work: Iterable[Work]) -> Counter[str]:
    """Return nanoseconds by the name of the kernel."""
    times: Counter[str] = Counter()
    for item in work:
        times[item.name] += round((item.end - item.start) * 1e9)
    return times


def _busy(work: Iterable[Work]) -> float:
    """Return the time in which any of it ran."""
    total = end = 0.0
    for item in work:
        total += max(0.0, item.end - max(item.start, end))
        end = max(end, item.end)
    return total


def _gaps(every: Iterable[Work]) -> Iterator[tuple[float, Work]]:
    """Yield each time in which nothing ran, by its beginning and the work that ended it."""
    end = None
    for item in every:
        if end is not None and item.start > end:
            yield end, item
        end = max(end or item.end, item.end)


def _pauses(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the long times in which the CPU did nothing of torch or CUDA; `spans` are those in which it did."""
    pauses, end = list[tuple[float, float]](), None
    for start, stop in sorted(spans):
        if end is not None and start - end > _PAUSE:
            pauses.append((end, start))
        end = max(end or stop, stop)
    return pauses


def _waited(calls: Iterable[Call]) -> list[float]:
    """Return the moments at which a call returns by which the CPU waited for the GPU."""
    return sorted(call.end for call in calls if _WAITS.match(call.name))


def _idle(gaps: Iterable[tuple[float, Work]], waited: Sequence[float]) -> tuple[float, float, float]:
    """Return the seconds of gaps by what ended them."""
    sizes = dict.fromkeys(WHYS, 0.0)
    for gap in _explained(gaps, waited):
        sizes[gap.why] += gap.end - gap.start
    return sizes["late"], sizes["waited"], sizes["other"]


class Gap(NamedTuple):
    """A time in which the GPU does nothing: it ends with a `late` launch, with one after the CPU `waited`, or otherwise."""

    start: float
    end: float
    why: str


WHYS = ("late", "waited", "other")


def _explained(gaps: Iterable[tuple[float, Work]], ends: Sequence[float]) -> Iterator[Gap]:
    """Yield gaps with what ended them: a late launch, one after the CPU had waited, or one that had come in time."""
    for size, work in gaps:
        begin = work.start - size
        if work.launched is None or work.launched <= begin:
            yield Gap(begin, work.start, "other")
            continue
        number = bisect_left(ends, begin)
        waited = number < len(ends) and ends[number] <= work.launched
        yield Gap(begin, work.start, "waited" if waited else "late")


class Content(NamedTuple):
    """What a step holds: the GPU's work that it launched, the gaps before that, and the calls by which the CPU waits."""

    work: Sequence[Work]
    gaps: Sequence[Gap]
    waits: Sequence[Call]


def content(timeline: Timeline, step: Step) -> Content:
    """Return what lies in the range of a step."""
    own = [work for work in timeline.work if step.begin <= work.asked < step.end]
    waits = [call for call in timeline.calls if step.begin <= call.start < step.end and _WAITS.match(call.name)]
    mine = set(own)
    gaps = [(work.start - begin, work) for begin, work in _gaps(timeline.work) if work in mine]
    return Content(own, list(_explained(gaps, _waited(timeline.calls))), waits)


def _refused(work: Iterable[Work], calls: Iterable[Call]) -> Counter[Refused]:
    """Count what a capture would refuse; a copy of pageable memory stands for the wait that follows it."""
    counted = Counter(
        Refused(call.name, call.operation) for call in calls if _WAITS.match(call.name) or _ALLOCATES.match(call.name)
    )
    copies = Counter(Refused(item.name, "") for item in work if item.kind == "memcpy" and "Pageable" in item.name)
    return counted + copies
