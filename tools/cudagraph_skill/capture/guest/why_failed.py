"""Explain a failed capture: the innermost error, its line, and every other line that fails under capture."""

from __future__ import annotations

import os
import re
import threading
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_skill.capture.guest import checks, leftovers, operations, stack
from cudagraph_skill.capture.guest.why_wrong import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.capture.guest.checks import Observations
    from cudagraph_skill.capture.guest.load import Source
    from cudagraph_skill.capture.guest.stack import Place

_WAITS = "waits for the GPU, which a capture forbids"
_LIBRARIES = re.compile("CUBLAS|CUDNN|CUFFT")
_WORDS = ("cuda", "captur", "cublas", "cudnn", "nccl", "graph", "pinned", "generator")


def innermost(error: BaseException) -> BaseException:
    """Return the deepest error in the chain that mentions CUDA or capture, else the given one."""
    chain = [error]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None and inner not in chain:
        chain.append(inner)
    about_cuda = [
        link for link in chain if isinstance(link, RuntimeError) and any(word in str(link).lower() for word in _WORDS)
    ]
    return about_cuda[-1] if about_cuda else error


def shown(error: BaseException) -> str:
    """Return type and first line of an error, and the explanation that torch.compile writes below it."""
    first, *others = f"{type(error).__name__}: {error}".strip().split("\n")
    explained = next((line.strip().removeprefix("Explanation:") for line in others if "Explanation:" in line), "")
    return f"{first}{':' * bool(explained)}{explained}"[:300]


def first_cause(observations: Observations) -> Cause:
    """Return where the capture failed, as far as the error itself shows."""
    assert observations.captured.error is not None
    error = innermost(observations.captured.inner or observations.captured.error)
    frames = stack.of_traceback(error.__traceback__)
    if observations.captured.inner is not None and not frames:
        frames = stack.of_traceback(observations.captured.inner.__traceback__)
    place = frames[-1] if frames and observations.captured.inner is not None else None
    library = stack.library_of_traceback(error.__traceback__) if place else None
    via = tuple(stack.via(frames))
    return Cause("fails", "capture", place, "fails at capture", "", shown(error), via, first=True, library=library)


def explain(source: Source, observations: Observations, report: Any) -> tuple[list[Cause], list[str]]:
    """Return all lines that fail, that of the real capture first, and notes on what could not be found out.

    A rank whose own capture did not fail makes the same calls, because another one waits for it; it has no line to name.
    """
    notes: list[str] = []
    causes = [first_cause(observations)] if observations.captured.error is not None else []
    unclear = any(cause.place is None or "previous error" in cause.error for cause in causes)
    if report.any("whether the line of the failure is unclear", unclear):
        report.progress("watching a second capture for the line")
        watched = _tried(lambda: _watched(source, observations, causes[:1]), notes, "watching the capture")
        if unclear:
            causes = [*watched, *(cause._replace(first=False) for cause in causes if cause.place is not None or not watched)]
    report.progress("trying each operation under capture")
    probed = _tried(lambda: _probed(source, observations), notes, "trying each operation")
    waited = [_of(wait, _WAITS) for wait in observations.captured.waits]  # some of them in C++, past every dispatch mode
    if report.any("whether a library was not set up", any(_LIBRARIES.search(cause.error) for cause in causes)):
        notes += _other_paths(source, observations)
    return (_unique([*causes, *probed, *waited]), notes) if causes else ([], [])


def _other_paths(source: Source, observations: Observations) -> list[str]:
    """Name the lines that may send a capture another way than the calls before it, which have not set up its libraries then."""
    with operations.told_it_captures() as lines, suppress(Exception):
        subject = source.fresh()
        args, kwargs = checks.arguments(subject, observations.warm_ups)
        subject.call(*args, **kwargs)
    places = dict.fromkeys(line.library or line.places[-1] for line in lines)
    return [
        f"line {place.line} of {os.path.basename(place.path)} asks whether the stream captures: no call before the capture took "
        "the path of one, so call what runs there once before it, too"
        for place in places
    ]


def _tried(work: Any, notes: list[str], doing: str) -> list[Cause]:
    try:
        located: list[Cause] = work()
    except BaseException as error:  # noqa: BLE001 - an explanation that fails must not cost the verdict
        notes.append(f"{doing} raised {shown(error)}")
        return []
    return located


def _watched(source: Source, observations: Observations, failed: list[Cause]) -> list[Cause]:
    """Capture again and watch: the operation that broke it, another thread's error, or the last work on a stream that did not join."""
    subject = source.fresh()
    checks.warm_up(subject, observations.warm_ups)
    watchers: list[operations.Watcher] = []
    waits: list[operations.Failure] = []

    @contextmanager
    def watched() -> Iterator[None]:
        with operations.waits() as waited, operations.Watcher() as watcher:
            watchers.append(watcher)
            yield
        waits.extend(waited)

    with _threads() as threads, operations.joins() as joined:
        attempt = checks.capture(subject, observations.warm_ups, watched)
    if not failed or not watchers:
        return []
    (cause,), watcher = failed, watchers[0]
    if watcher.broken is not None:
        return [_at(watcher.broken, cause, "breaks the capture, and its error was swallowed")]
    if threads:
        return [_at(threads[0], cause, "is on another thread, whose call breaks the capture")]
    if waits:
        return [_at(waits[0], cause, _WAITS)]
    if "unjoined" in cause.error or "unjoined" in str(attempt.error):
        unjoined = [work for stream, work in watcher.others.items() if not any(waited == stream for _, waited in joined)]
        return [_at(work, cause, "works on a stream that the capturing one does not wait for") for work in unjoined[:1]]
    return [_at(work, cause, "works on another stream than the capturing one") for work in list(watcher.others.values())[:1]]


def _at(failure: operations.Failure, cause: Cause, message: str) -> Cause:
    place = failure.places[-1] if failure.places else None
    return cause._replace(
        place=place,
        op=failure.name,
        message=message,
        error=failure.error or cause.error,
        via=tuple(stack.via(failure.places)),
        library=failure.library,
    )


@contextmanager
def _threads() -> Iterator[list[operations.Failure]]:
    """Collect what other threads raise."""
    failures: list[operations.Failure] = []
    before = threading.excepthook

    def record(args: Any) -> None:
        frames = stack.of_traceback(args.exc_traceback)
        if args.exc_value is not None:
            library = stack.library_of_traceback(args.exc_traceback)
            failures.append(operations.Failure("", shown(args.exc_value), frames, library))

    threading.excepthook = record
    try:
        yield failures
    finally:
        threading.excepthook = before


def _probed(source: Source, observations: Observations) -> list[Cause]:
    """Capture each operation of one eager call alone; return those that fail."""
    subject = source.fresh()
    checks.warm_up(subject, observations.warm_ups)
    args, kwargs = checks.arguments(subject, observations.warm_ups)
    try:
        with warnings.catch_warnings(), operations.waits() as waits, operations.Prober(torch.cuda.Stream()) as prober:
            warnings.simplefilter("ignore")  # of captures that hold nothing: an operation that makes a view
            with source.lines.followed():
                subject.call(*args, **kwargs)
        torch.cuda.synchronize()
    finally:
        leftovers.reset_generators()
    waited = [failure for failure in waits if failure.places]
    return [_of(failure, "fails at capture") for failure in (*prober.failures, *waited)]


def _of(failure: operations.Failure, message: str) -> Cause:
    place = failure.places[-1] if failure.places else None
    via = tuple(stack.via(failure.places))
    return Cause("fails", "capture", place, message, failure.name, failure.error, via, library=failure.library)


def _unique(causes: list[Cause]) -> list[Cause]:
    """Merge causes of the same line; an operation that only a later one knows is kept."""
    located: dict[tuple[str, int], Cause] = {}
    for cause in causes:
        key = (cause.place.path, cause.place.line) if cause.place else ("", 0)
        if key not in located:
            located[key] = cause
        elif not located[key].op:
            located[key] = located[key]._replace(op=cause.op, library=located[key].library or cause.library)
    return list(located.values())


def place_of(error: BaseException) -> Place | None:
    """Return the user's line of an error."""
    frames = stack.of_traceback(error.__traceback__)
    return frames[-1] if frames else None
