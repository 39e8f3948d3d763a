"""Divide a call into regions, and measure each: calls of modules by nesting, backward passes, optimizer steps, the rest.

Times of the CPU come from calls that no profiler watches; launches and times of the GPU from a profile after them.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd.profiler import profile, record_function
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from cudagraph_skill.capture.guest import calibration, checks, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cudagraph_skill.capture.guest.load import Subject
    from cudagraph_skill.capture.guest.modes import Modes

MODULE, BACKWARD, OPTIMIZER, WHOLE = "module", "backward", "optimizer", "call"
_MOST = 2000  # regions
_CALLS, _PROFILED = 10, 3  # calls that are timed; calls of each other pass, and timed ones where a call takes long
_LONG = 0.3  # seconds of a call
_MARK = "cudagraph_skill region "


class Region:
    """One part of a call: `owner` is its module or optimizer; `gpu` and `cpu` are seconds a call, with the parts inside."""

    def __init__(self, number: int, kind: str, name: str, owner: Any, parent: Region | None) -> None:
        self.number, self.kind, self.name, self.owner, self.parent = number, kind, name, owner, parent
        self.parts: list[Region] = []
        self.calls = 0.0
        self.launches = self.gpu = self.cpu = 0.0

    def and_around(self) -> Iterator[Region]:
        """Yield this region and those that it is inside of, innermost first."""
        region: Region | None = self
        while region is not None:
            yield region
            region = region.parent

    def all(self) -> Iterator[Region]:
        """Yield this region and everything inside it, outermost first."""
        yield self
        for part in self.parts:
            yield from part.all()


class Arguments(NamedTuple):
    """What a module was called with, copied, and the modes of that call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    modes: Modes


class Watch:
    """Follows the regions of calls, by which of them are open."""

    def __init__(self, name: str, modules: dict[int, str]) -> None:
        self.root = Region(0, WHOLE, name, None, None)
        self._all = [self.root]
        self._modules = modules
        self._open = [self.root]

    def region(self, kind: str, name: str, owner: Any) -> Region | None:
        """Return the region of this kind and owner inside the innermost open one; None where there are too many."""
        parent = self._open[-1]
        found = next((part for part in parent.parts if part.kind == kind and part.owner is owner), None)
        if found is None and len(self._all) < _MOST:
            found = Region(len(self._all), kind, name, owner, parent)
            parent.parts.append(found)
            self._all.append(found)
        return found

    @contextlib.contextmanager
    def inside(self, kind: str, name: str, owner: Any) -> Iterator[Region | None]:
        """Open a region for the time of one call of it."""
        region = self.region(kind, name, owner)
        if region is None:
            yield None
            return
        self._open.append(region)
        try:
            yield region
        finally:
            self._open.pop()

    def module_name(self, module: torch.nn.Module) -> str:
        """Return the path of a module as the program reaches it, else its class."""
        return self._modules.get(id(module), "") or type(module).__name__

    def regions(self) -> list[Region]:
        """Return every region, in the order of the first call."""
        return list(self._all)


def watch(subject: Subject) -> Watch:
    """Return a watch that knows the names of the modules and optimizers that the subject reaches."""
    return Watch(subject.name, {id(value): name for name, value in named(subject).items()})


def named(subject: Subject) -> dict[str, Any]:
    """Return the modules and optimizers that the subject reaches, each once, by path."""
    names: dict[int, str] = {}
    found: dict[str, Any] = {}
    for path, value in state.walk(subject.reach):
        if isinstance(value, (torch.nn.Module, torch.optim.Optimizer)) and path:
            names.setdefault(id(value), path.removeprefix("self.").lstrip("."))
            found.setdefault(names[id(value)], value)
            if isinstance(value, torch.nn.Module):
                for name, inner in value.named_modules():
                    if name and id(inner) not in names:
                        names[id(inner)] = f"{names[id(value)]}.{name}"
                        found.setdefault(names[id(inner)], inner)
    return found


@contextlib.contextmanager
def followed(watch: Watch, around: Callable[[Region], Any], took: Callable[[Region, tuple[Any, ...], dict[str, Any]], None] | None = None) -> Iterator[None]:  # fmt: skip
    """Let `around(region)`, a context, stand around each call of a region; `took` gets the arguments of modules, and none of optimizers."""
    call, backward, grad = torch.nn.Module.__call__, torch.autograd.backward, torch.autograd.grad
    steps: list[Any] = []

    def module_call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        with watch.inside(MODULE, watch.module_name(module), module) as region:
            if region is None:
                return call(module, *args, **kwargs)
            if took is not None:
                took(region, args, kwargs)
            with around(region):
                return call(module, *args, **kwargs)

    def differentiated(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with watch.inside(BACKWARD, "backward", None) as region:
                if region is None:
                    return real(*args, **kwargs)
                with around(region):
                    return real(*args, **kwargs)

        return run

    def before(optimizer: Any, *_: Any) -> None:
        stacked = contextlib.ExitStack()
        steps.append(stacked)
        name = f"{watch._modules.get(id(optimizer), '') or type(optimizer).__name__}.step"
        region = stacked.enter_context(watch.inside(OPTIMIZER, name, optimizer))
        if region is not None:
            if took is not None:
                took(region, (), {})
            stacked.enter_context(around(region))

    def after(*_: Any) -> None:
        if steps:
            steps.pop().close()

    hooks = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    torch.nn.Module.__call__ = module_call
    torch.autograd.backward, torch.autograd.grad = differentiated(backward), differentiated(grad)
    try:
        yield
    finally:
        torch.nn.Module.__call__ = call
        torch.autograd.backward, torch.autograd.grad = backward, grad
        for hook in hooks:
            hook.remove()
        while steps:
            steps.pop().close()


# Measurements ---------------------------------------------------------------------------------------------------------


class Totals(NamedTuple):
    """Seconds of a call: from its start to the end of its work, of the CPU until it returns, of the GPU; its launches."""

    wall: float
    cpu: float
    busy: float
    launches: float


def measured(subject: Subject, first: int) -> tuple[Watch, Totals]:
    """Measure calls from number `first` on: timed, followed, profiled."""
    watched = watch(subject)
    walls, cpus = list[float](), list[float]()
    while len(walls) < (_CALLS if min(walls, default=0.0) < _LONG else _PROFILED):
        wall, cpu = _timed(subject, first + len(walls))
        walls.append(wall)
        cpus.append(cpu)
    first += len(walls)
    _follow(subject, watched, first)
    busy, launches = _profile(subject, watched, first + _PROFILED)
    return watched, Totals(statistics.median(walls), statistics.median(cpus), busy, launches)


def _timed(subject: Subject, number: int) -> tuple[float, float]:
    args, kwargs = checks.arguments(subject, number)
    torch.cuda.synchronize()
    start = time.perf_counter()
    subject.call(*args, **kwargs)
    returned = time.perf_counter()
    torch.cuda.synchronize()
    return time.perf_counter() - start, returned - start


def _follow(subject: Subject, watched: Watch, first: int) -> None:
    """Add to each region its calls and its time on the CPU."""

    @contextlib.contextmanager
    def around(region: Region) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            region.cpu += (time.perf_counter() - start) / _PROFILED
            region.calls += 1 / _PROFILED

    _call(subject, watched, first, around)


def _call(subject: Subject, watched: Watch, first: int, around: Callable[[Region], Any]) -> None:
    """Make the calls of one pass, with `around(region)` around each call of a region and around the whole."""
    for number in range(first, first + _PROFILED):
        args, kwargs = checks.arguments(subject, number)
        torch.cuda.synchronize()
        with followed(watched, around), around(watched.root):
            subject.call(*args, **kwargs)
        torch.cuda.synchronize()


def _profile(subject: Subject, watched: Watch, first: int) -> tuple[float, float]:
    """Add to each region its launches and its time on the GPU; return those of a call, time by union of intervals."""

    def around(region: Region) -> Any:
        return record_function(f"{_MARK}{region.number}")

    with profile(use_device="cuda", use_kineto=True) as recorded:
        _call(subject, watched, first, around)
    events = list(recorded.kineto_results.events())
    work = sorted(_work(events), key=lambda item: item[1])
    regions = {region.number: region for region in watched.regions()}
    intervals = []
    holders = innermost(_spans(events), [launched for _, launched, _ in work])
    for (start, _, took), holder in zip(work, holders, strict=True):
        if holder is None:
            continue  # between the calls: their inputs
        intervals.append((start, start + took))
        for region in regions[holder].and_around():
            region.launches += 1 / _PROFILED
            region.gpu += took / 1e9 / _PROFILED
    return union(intervals) / 1e9 / _PROFILED, watched.root.launches


def _spans(events: Iterable[Any]) -> list[tuple[int, int, int]]:
    """Return begin and end in nanoseconds, and number, of each call of a region."""
    marked = [
        event for event in events if event.name().startswith(_MARK) and event.device_type() == torch.autograd.DeviceType.CPU
    ]
    return [
        (event.start_ns(), event.start_ns() + event.duration_ns(), int(event.name().removeprefix(_MARK))) for event in marked
    ]


def _work(events: list[Any]) -> list[tuple[int, int, int]]:
    """Return when each kernel, copy and fill began, when its operation did, and how long it took, in nanoseconds.

    The operation is on the clock of the regions; the launch, on CUPTI's, may be some microseconds off, and stands in for it.
    """
    on_cpu = [event for event in events if event.device_type() == torch.autograd.DeviceType.CPU]
    launches = {event.correlation_id(): event.start_ns() for event in on_cpu if event.name().startswith(("cu", "hip"))}
    operations = {event.correlation_id(): event.start_ns() for event in on_cpu if not event.name().startswith(("cu", "hip"))}
    work = []
    for event in events:
        if not calibration.is_work(event):
            continue
        launched = launches.get(event.correlation_id(), event.start_ns())
        work.append((event.start_ns(), operations.get(event.linked_correlation_id(), launched), event.duration_ns()))
    return work


def innermost(spans: list[tuple[int, int, int]], moments: Iterable[int]) -> list[int | None]:
    """Return for each moment, in rising order, the number of the innermost span that holds it; spans lie within one another."""
    waiting, around, found = sorted(spans, key=lambda span: (span[0], -span[1])), [], list[int | None]()
    position = 0
    for moment in moments:
        while position < len(waiting) and waiting[position][0] <= moment:
            around.append(waiting[position])
            position += 1
        while around and around[-1][1] < moment:
            around.pop()
        found.append(around[-1][2] if around else None)
    return found


def union(intervals: Iterable[tuple[int, int]]) -> int:
    """Return the length of intervals together, what overlaps counted once."""
    total = end = 0
    for begin, stop in sorted(intervals):
        total += max(0, stop - max(begin, end))
        end = max(end, stop)
    return total
