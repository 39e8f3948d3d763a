"""Make the calls of a subject in one way, with graphs or without: compare them with eager calls, or time them.

Each comparison and each timing has a process of its own. A way that is compared draws eager's random numbers, so that inductor
falls back to them; one that is timed does as it would for the user. Its kernels were compiled before, in a process for that or
in those that compare, so that a timing takes no longer than it must.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import time
import types
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_skill.capture.guest import (
    checks,
    comparison,
    load,
    operations,
    regions,
    rounding,
    tensors,
    timing,
    verdict,
    why_failed,
)
from cudagraph_skill.capture.guest.wrappers.graphed import Graphed
from cudagraph_skill.capture.guest.wrappers.graphed_module import graph_module
from cudagraph_skill.capture.guest.wrappers.reduce_overhead import reduce_overhead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cudagraph_skill.capture.guest.load import Source, Subject

    Made = Callable[..., Any]

# calls after those before a capture: a compiled function records its graphs in the second, and replays from the third on
_SET_UP = 3
# A fused kernel rounds in other places than eager: so much of what eager moves by, in single precision and where an operation
# has a coarser one, as under autocast, and one percent in the mean: where rounding turns a ReLU over, which it does in other
# places in each run, the gradients of that unit jump. Chosen, not fitted: torch's own benchmarks ask of compiled training steps
# a cosine of 0.99, which is 14 percent.
_FUSED, _FUSED_COARSE, _FUSED_LEAST = 100, 10, 1e-2


def measured(source: Source, report: Any) -> dict[str, Any]:
    """Return a result with the `way` of the request: how its calls compare with eager ones, their times, or nothing yet."""
    wanted, request = source.request["way"], source.request
    why = verdict.unusable()
    if why:
        return verdict.without_causes("lacking", why, request)
    try:
        found = _TASKS[wanted["task"]](source, wanted, report)
    except _Failed as failed:
        found = failed.shown()
    except verdict.ENDS as error:
        return verdict.ended(error, request)
    return {**verdict.without_causes("safe", "", request), "way": found}


class _Failed(Exception):
    """A call in this way raised `error`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error, self.raised = why_failed.innermost(error), error

    def shown(self) -> dict[str, Any]:
        """Return the error and its line in the user's code."""
        place = why_failed.place_of(self.error)
        lacks_memory = isinstance(self.error, tensors.OUT_OF_MEMORY)
        raised_by = "" if self.raised is self.error else f"{type(self.raised).__name__}: "
        shown = f"{raised_by}{why_failed.shown(self.error)}"
        return {
            "error": "the GPU has too little memory for this way" if lacks_memory else shown,
            "lacks_memory": lacks_memory,
            "path": place.path if place else "",
            "line": place.line if place else 0,
        }


# Ways -----------------------------------------------------------------------------------------------------------------


def _graphed_modules(subject: Subject, names: Sequence[str]) -> Made:
    for module in _modules(subject, names):
        graph_module(module)
    return _bare(subject)


def _modules(subject: Subject, names: Sequence[str]) -> list[torch.nn.Module]:
    found = regions.named(subject) if names else {}
    lost = [name for name in names if name not in found]
    if lost:
        raise LookupError(f"the call reaches no module by the path {lost[0]}")
    return [found[name] for name in names]


def _bare(subject: Subject) -> Made:
    """Return what a decorator of the user's function has to call: without the modes that a program enters before."""
    return subject.call if subject.bare is None else subject.bare


def in_inference_mode(subject: Subject) -> Made | None:
    """Return what `@torch.inference_mode()` decorates, bound as the call is; None where that is not its outermost decorator.

    A method that `make()` gives has no name in the user's file by which code could reach it.
    """
    function = _bare(subject)
    plain = getattr(function, "__func__", function)
    cells = zip(
        getattr(getattr(plain, "__code__", None), "co_freevars", ()), getattr(plain, "__closure__", ()) or (), strict=False
    )
    mode = next((getattr(cell.cell_contents, "__self__", None) for name, cell in cells if name == "ctx_factory"), None)
    if not isinstance(mode, torch.inference_mode) or not mode.mode or (subject.made and plain is not function):
        return None
    inner: Made = vars(plain)["__wrapped__"]
    owner = getattr(function, "__self__", None)
    return inner if owner is None else types.MethodType(inner, owner)


def _compiled_by(compiler: Callable[[Made], Made], subject: Subject) -> Made:
    """Compile a call, below the decorator for inference mode: AOTAutograd of torch 2.5 to 2.13 fails on views taken in that."""
    inner = in_inference_mode(subject)
    return compiler(_bare(subject)) if inner is None else torch.inference_mode()(compiler(inner))


_WAYS: dict[str, Callable[[Subject, Sequence[str]], Made]] = {
    "eager": lambda subject, _: _bare(subject),
    "compile": lambda subject, _: _compiled_by(torch.compile, subject),
    "reduce-overhead": lambda subject, _: _compiled_by(reduce_overhead, subject),
    "manual": lambda subject, _: Graphed(_bare(subject), checks.warm_ups_of(subject)),
    "manual over compile": lambda subject, _: Graphed(_compiled_by(torch.compile, subject), checks.warm_ups_of(subject)),
    "modules": _graphed_modules,
}


@contextlib.contextmanager
def _in_way(wanted: dict[str, Any], name: str, *subjects: Subject, modules: Sequence[str] = ()) -> Iterator[None]:
    """Let subjects be called in the way of this name, then as before: a subject that cannot be built anew is used again."""
    before = [(subject, subject.call) for subject in dict(zip(map(id, subjects), subjects, strict=True)).values()]
    passes = [(module, vars(module).get("forward")) for subject, _ in before for module in _modules(subject, modules)]
    try:
        with _compiler(wanted):
            for subject, _ in before:
                made = _WAYS[name](subject, modules)
                modes = subject.modes
                subject.call = (
                    made if modes is None else modes.around_timed(made) if wanted["task"] == "time" else modes.around(made)
                )
            yield
    finally:
        for subject, call in before:
            subject.call = call
        for module, forward in passes:
            vars(module).pop("forward", None)
            if forward is not None:
                module.forward = forward


def _needs_gradients(subject: Subject) -> bool:
    """Return whether the backward pass of a call comes after it: its result has gradients to compute, and none ran in it."""
    watched = regions.watch(subject)
    try:
        args, kwargs = checks.arguments(subject, 0)
        with regions.followed(watched, lambda _: contextlib.nullcontext()):
            out = subject.call(*args, **kwargs)
    except Exception as error:
        raise checks.EagerError(error, 0) from error
    backward = any(region.kind == regions.BACKWARD for region in watched.regions())
    return not backward and any(tensor.requires_grad for tensor in tensors.tensors(out))


def _outermost(subject: Subject) -> list[str]:
    """Return the modules that one call runs, each once, and in no other one."""
    watched = regions.watch(subject)
    counts: dict[int, int] = {}

    @contextlib.contextmanager
    def around(region: regions.Region) -> Any:
        counts[region.number] = counts.get(region.number, 0) + 1
        yield

    args, kwargs = checks.arguments(subject, 0)
    with regions.followed(watched, around):
        subject.call(*args, **kwargs)
    torch.cuda.synchronize()
    reached = regions.named(subject)
    return [
        part.name
        for part in watched.root.parts
        if part.kind == regions.MODULE and counts[part.number] == 1 and reached.get(part.name) is part.owner
    ]


_NO_GRADIENTS = (
    "its result has gradients to compute, and a replay of the whole call computes none: name a function that makes the backward "
    "pass, too, or call it under torch.no_grad()"
)


def _refused(why: str) -> dict[str, Any]:
    return {"error": why, "lacks_memory": False, "path": "", "line": 0}


# Measurements ---------------------------------------------------------------------------------------------------------


def _compared(source: Source, wanted: dict[str, Any], report: Any) -> dict[str, Any]:
    """Compare calls in this way with those of two copies that make them without a graph."""
    report.progress(f"comparing with eager: {wanted['name']}")
    start = time.monotonic()
    if wanted["threads"]:
        torch.set_num_threads(wanted["threads"])
    first, second = checks.pair(source)
    if first.modes is not None and wanted["name"].startswith("manual"):
        if _needs_gradients(first):
            return _refused(_NO_GRADIENTS)
        first = second = source.fresh()
    warm_ups, in_inference = checks.warm_ups_of(first), in_inference_mode(first) is not None
    over_compile = wanted["compiles"] and wanted["name"] != "compile"
    once = source.reusing(first) if over_compile else contextlib.nullcontext()
    try:
        with once, _in_way(wanted, "compile" if over_compile else "eager", first, second):  # the same kernels without a graph
            eager = checks.eager_calls(source, first, second, warm_ups, report)
    except checks.EagerError as error:
        if over_compile or isinstance(error.error, tensors.OUT_OF_MEMORY):
            raise _Failed(error.error) from error
        raise
    del first, second
    gc.collect()
    names = list(wanted["modules"])
    if wanted["name"] == "modules" and not names:
        names = _outermost(source.fresh())
        if not names:
            return _refused("the call runs no module once that it reaches by a name")
    calls = _calls(source, wanted, names, len(eager.calls))
    report.step("calls", "ok", f"{len(calls)} calls", time.monotonic() - start)
    return {**_agreement(source, eager, calls, warm_ups, report), "modules": names, "in_inference_mode": in_inference}


def _calls(source: Source, wanted: dict[str, Any], names: Sequence[str], count: int) -> list[comparison.Call]:
    with _as_failed():
        subject = source.fresh()
        with _in_way(wanted, wanted["name"], subject, modules=names):
            return [checks.eager_call(subject, number, full=False) for number in range(count)]


@contextlib.contextmanager
def _compiler(wanted: dict[str, Any]) -> Any:
    if not wanted["compiles"]:
        yield
        return
    import torch._inductor.config

    options = {
        "compare": {"fallback_random": wanted["draws"]},  # one that draws nothing compiles as it would for the user
        "compile": {},
        "time": {"compile_threads": 1},  # workers would take time, and have nothing to compile
    }
    with torch._inductor.config.patch(options[wanted["task"]]):
        yield


def _agreement(
    source: Source, eager: comparison.Eager, calls: list[comparison.Call], warm_ups: int, report: Any
) -> dict[str, Any]:
    """Return whether calls equal those without a graph: equal, rounding, wrong, or unknown where these do not repeat themselves."""
    after = [*eager.calls[:warm_ups], *checks.lasting(eager.calls, warm_ups)]
    seen = checks.Captured(calls[warm_ups : len(after)], None, None, [], None, None)
    leeway = _leeway(source) if source.request["way"]["name"] == "compile" else rounding.REPLAYS
    wrong = comparison.compare(after[warm_ups:], seen.calls, comparison.own_spread(eager.spread), leeway.by)
    changes = checks.Observations(seen, wrong, after, eager.spread, warm_ups, set(), {}, eager.drift)
    found = {"agreement": "equal", "worst": 0.0, "path": "", "of": 0}
    if wrong is None:
        noisy = max(eager.spread.values(), default=0.0) > checks.SURE
        return {**found, "agreement": "unknown" if noisy else "equal"}
    small = rounding.judged(source, changes, report, leeway)
    found |= {"worst": min(wrong.worst, 1e300), "path": wrong.path, "of": wrong.calls[0] + warm_ups}
    if small is None:
        return {**found, "agreement": "wrong"}
    return {**found, "agreement": "unknown" if small.is_chaos else "rounding"}


def _leeway(source: Source) -> rounding.Leeway:
    """Return how much of what eager moves by is rounding for a compiled call, by the coarsest numbers of an eager one."""
    subject = source.fresh()
    args, kwargs = checks.arguments(subject, 0)
    with operations.Coarsest() as seen:
        subject.call(*args, **kwargs)
    torch.cuda.synchronize()
    coarse = seen.step > torch.finfo(torch.float32).eps
    times, step = (_FUSED_COARSE, seen.step) if coarse else (_FUSED, 0.0)
    return rounding.Leeway(times, step, tensors.mean_difference, _FUSED_LEAST)


def _compiled(source: Source, wanted: dict[str, Any], report: Any) -> dict[str, Any]:
    """Make the first calls, which compile; their kernels are on disk then."""
    report.progress(f"compiling: {wanted['name']}")
    with _as_failed():
        subject = source.fresh()
        with _in_way(wanted, wanted["name"], subject):
            _set_up(subject, checks.warm_ups_of(subject) + _SET_UP)
    return {}


def _timed(source: Source, wanted: dict[str, Any], report: Any) -> dict[str, Any]:
    """Time calls in this way, after those that set it up; memory is all that torch has reserved by then, at the most.

    Processes set their ways up beside each other; one is timed when none does, and none begins until then.
    """
    report.progress(f"timing: {wanted['name']}")
    start = time.perf_counter()
    with _as_failed(), contextlib.ExitStack() as stack:
        with _turn(wanted, fcntl.LOCK_SH):
            subject = source.fresh()
            stack.enter_context(_in_way(wanted, wanted["name"], subject, modules=wanted["modules"]))
            first = checks.warm_ups_of(subject) + _SET_UP
            set_up = _set_up(subject, first)
        with _turn(wanted, fcntl.LOCK_EX):
            times = timing.in_turns({"way": timing.calls(subject, first)})["way"]
    report.step("time", "ok", f"{times.median * 1e6:.0f} us", time.perf_counter() - start)
    return {**times._asdict(), "set_up": set_up, "memory": torch.cuda.max_memory_reserved()}


@contextlib.contextmanager
def _turn(wanted: dict[str, Any], lock: int) -> Iterator[None]:
    """Hold the lock of all processes that are timed; it is given back by name, as a fork of user code would keep it open."""
    with open(wanted["turns"], "rb") as file:
        fcntl.flock(file, lock)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


@contextlib.contextmanager
def _as_failed() -> Iterator[None]:
    """Raise what calls in a way raise as `_Failed`."""
    try:
        yield
    except load.Misuse:
        raise
    except checks.EagerError as error:
        raise _Failed(error.error) from error
    except Exception as error:
        raise _Failed(error) from error


def _set_up(subject: Subject, count: int) -> float:
    """Make the first calls; return the seconds that they took."""
    taken = 0.0
    for number in range(count):
        args, kwargs = checks.arguments(subject, number)
        torch.cuda.synchronize()
        start = time.perf_counter()
        subject.call(*args, **kwargs)
        torch.cuda.synchronize()
        taken += time.perf_counter() - start
    return taken


_TASKS: dict[str, Callable[[Source, dict[str, Any], Any], dict[str, Any]]] = {
    "import": lambda *_: {},
    "compare": _compared,
    "compile": _compiled,
    "time": _timed,
}
