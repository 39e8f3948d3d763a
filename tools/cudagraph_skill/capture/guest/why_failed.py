"""Explain a failed capture: the innermost error, its line, and every other line that fails under capture."""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_skill.capture.guest import checks, operations, stack
from cudagraph_skill.capture.guest.why_wrong import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.capture.guest.checks import Seen
    from cudagraph_skill.capture.guest.load import Source
    from cudagraph_skill.capture.guest.stack import Place

_WORDS = ("cuda", "captur", "cublas", "cudnn", "nccl", "graph", "pinned", "generator")


def innermost(error: BaseException) -> BaseException:
    """Return the deepest error in the chain that mentions CUDA or capture, else the given one."""
    chain, each = [error], error
    while (below := each.__cause__ or each.__context__) is not None and below not in chain:
        chain.append(below)
        each = below
    told = [each for each in chain if isinstance(each, RuntimeError) and any(word in str(each).lower() for word in _WORDS)]
    return told[-1] if told else error


def shown(error: BaseException) -> str:
    """Return type and first line of an error."""
    return f"{type(error).__name__}: {error}".strip().split("\n")[0][:300]


def first_cause(seen: Seen) -> Cause:
    """Return where the capture failed, as far as the error itself shows."""
    surfaced = seen.captured.error
    assert surfaced is not None
    error = innermost(seen.captured.inner or surfaced)
    frames = stack.of_traceback(error.__traceback__)
    if seen.captured.inner is not None and not frames:
        frames = stack.of_traceback(seen.captured.inner.__traceback__)
    place = frames[-1] if frames and seen.captured.inner is not None else None
    return Cause("fails", "capture", place, "fails at capture", "", shown(error), tuple(stack.via(frames)), first=True)


def explain(source: Source, seen: Seen, report: Any) -> tuple[list[Cause], list[str]]:
    """Return all lines that fail, that of the real capture first, and notes on what could not be found out."""
    notes: list[str] = []
    causes = [first_cause(seen)]
    if causes[0].place is None or "previous error" in causes[0].error:
        report.progress("watching a second capture for the line")
        watched = _tried(lambda: _watched(source, seen, causes[0]), notes, "watching the capture")
        causes = [*watched, *(cause._replace(first=False) for cause in causes if cause.place is not None or not watched)]
    report.progress("trying each operation under capture")
    return _unique([*causes, *(_tried(lambda: _probed(source, seen), notes, "trying each operation") or [])]), notes


def _tried(work: Any, notes: list[str], doing: str) -> list[Cause]:
    try:
        located: list[Cause] = work()
    except BaseException as error:  # noqa: BLE001 - an explanation that fails must not cost the verdict
        notes.append(f"{doing} raised {shown(error)}")
        return []
    return located


def _watched(source: Source, seen: Seen, cause: Cause) -> list[Cause]:
    """Capture again and watch: the operation that broke it, another thread's error, or the last work on a stream that did not join."""
    subject = source.fresh()
    checks.warm_up(subject, seen.warm_ups)
    seen_by: list[operations.Watcher] = []
    waits: list[operations.Failure] = []

    @contextmanager
    def watched() -> Iterator[None]:
        with operations.waits() as waited, operations.Watcher() as watcher:
            seen_by.append(watcher)
            yield
        waits.extend(waited)

    with _threads() as threads, operations.joins() as joined:
        shot = checks.capture(subject, seen.warm_ups, watched)
    watcher = seen_by[0]
    if watcher.broken is not None:
        return [_at(watcher.broken, cause, "breaks the capture, and its error was swallowed")]
    if threads:
        return [_at(threads[0], cause, "is on another thread, whose call breaks the capture")]
    if waits:
        return [_at(waits[0], cause, "waits for the GPU, which a capture forbids")]
    if "unjoined" in cause.error or "unjoined" in str(shot.error):
        left = [place for stream, place in watcher.others.items() if not any(waited == stream for _, waited in joined)]
        return [_at(place, cause, "works on a stream that the capturing one does not wait for") for place in left[:1]]
    return [_at(place, cause, "works on another stream than the capturing one") for place in list(watcher.others.values())[:1]]


def _at(failure: operations.Failure, cause: Cause, said: str) -> Cause:
    place = failure.places[-1] if failure.places else None
    return cause._replace(
        place=place, op=failure.name, said=said, error=failure.error or cause.error, via=tuple(stack.via(failure.places))
    )


@contextmanager
def _threads() -> Iterator[list[operations.Failure]]:
    """Collect what other threads raise."""
    failures: list[operations.Failure] = []
    before = threading.excepthook

    def noted(args: Any) -> None:
        frames = stack.of_traceback(args.exc_traceback)
        if args.exc_value is not None:
            failures.append(operations.Failure("", shown(args.exc_value), frames))

    threading.excepthook = noted
    try:
        yield failures
    finally:
        threading.excepthook = before


def _probed(source: Source, seen: Seen) -> list[Cause]:
    """Capture each operation of one eager call alone; return those that fail."""
    subject = source.fresh()
    checks.warm_up(subject, seen.warm_ups)
    args, kwargs = checks.arguments(subject, seen.warm_ups)
    try:
        with warnings.catch_warnings(), operations.waits() as waits, operations.Prober(torch.cuda.Stream()) as prober:
            warnings.simplefilter("ignore")  # of captures that hold nothing: an operation that makes a view
            subject.call(*args, **kwargs)
        torch.cuda.synchronize()
    finally:
        checks.heal()
    waited = [failure for failure in waits if failure.places]
    return [
        Cause("fails", "capture", failure.places[-1] if failure.places else None, "fails at capture", failure.name, failure.error, tuple(stack.via(failure.places)))
        for failure in (*prober.failures, *waited)
    ]  # fmt: skip


def _unique(causes: list[Cause]) -> list[Cause]:
    """Merge causes of the same line; an operation that only a later one knows is kept."""
    located: dict[tuple[str, int], Cause] = {}
    for cause in causes:
        key = (cause.place.path, cause.place.line) if cause.place else ("", 0)
        if key not in located:
            located[key] = cause
        elif not located[key].op:
            located[key] = located[key]._replace(op=cause.op)
    return list(located.values())


def place_of(error: BaseException) -> Place | None:
    """Return the user's line of an error."""
    frames = stack.of_traceback(error.__traceback__)
    return frames[-1] if frames else None
