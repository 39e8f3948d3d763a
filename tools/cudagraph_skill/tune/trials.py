"""Compare the ways of a call with eager calls, and time them in rounds. Each comparison and each timing has its own process.

Those of a callable prepare beside each other, as most of their time goes into compiling; while one is timed, all others wait.
"""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture import request as requests
from cudagraph_skill.capture import session
from cudagraph_skill.tune.ways import COMPILE, EAGER, GRAPHS_OF_COMPILED, MODULES, PARTIAL, REDUCE_OVERHEAD, WAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from cudagraph_skill.capture.request import Request
    from cudagraph_skill.capture.result import CaptureResult
    from cudagraph_skill.capture.session import Guests, Listener

_KINDS = ("equal", "rounding", "unknown", "wrong")  # each further from eager than the one before
_CAPTURED = ("safe", "capture_error", "silent_wrong")
_ONCE = 0.01  # calls of a module more or less
_ROUNDS, _CONTENDS = 3, 1.3  # times as slow as the fastest right way, up to which one is timed again
_NO_NEW_ROUND = 170.0  # seconds, by which a round has to end if it takes as long as the one before
_BESIDE, _CORES = 6, 2  # processes beside each other, at the most; CPU cores for each
_KERNELS = (COMPILE, REDUCE_OVERHEAD)  # the ways that compile different ones: a manual capture has those of COMPILE
_LONG = 20.0  # seconds of the check of a program, from which on each way is timed once
_COMPARED = 1.25  # times the deadline of one process: when all comparisons end, those of a program apart
_LAST = {"import": 400.0, "compare": 400.0, "compile": 400.0, "time": 600.0}  # seconds after which no such task starts


class Agreement(NamedTuple):
    """How calls compare with eager ones: `kind` is equal, rounding, wrong or unknown; where they differ most, and first.

    `compiled` is the kind in which replays compare with compiled calls without a graph; "" where those are not compiled.
    """

    kind: str
    worst: float
    path: str
    call: int
    compiled: str = ""


class Times(NamedTuple):
    """Seconds of a call and of the first calls, bytes that torch reserved, as one process measured them.

    `set_up`, that of the first calls, passed beside the set-up of other ways, so it is longer than alone.
    """

    median: float
    least: float
    most: float
    set_up: float
    memory: int


@dataclass(frozen=True)
class Trial:
    """One way: how it compares, its times in each round; or `why` it was not tried or failed, with the line of the error.

    `in_inference_mode`: the function is decorated with `torch.inference_mode()`, and compiled below that decorator.
    `explained` is the entry of the error index about that error, where the index is sure.
    """

    name: str
    agreement: Agreement | None = None
    rounds: Sequence[Times] = ()
    modules: Sequence[str] = ()
    why: str = ""
    path: str = ""
    line: int = 0
    explained: str = ""
    in_inference_mode: bool = False

    @property
    def seconds(self) -> float:
        """Return the median of the rounds."""
        return statistics.median(times.median for times in self.rounds)

    @property
    def spread(self) -> tuple[float, float]:
        """Return the least and the most of the rounds; of a single one, those of its batches."""
        if len(self.rounds) == 1:
            return self.rounds[0].least, self.rounds[0].most
        return min(times.median for times in self.rounds), max(times.median for times in self.rounds)

    @property
    def is_right(self) -> bool:
        """Return whether it was timed, and equals eager or differs by rounding only."""
        right = self.name == EAGER or (self.agreement is not None and self.agreement.kind in ("equal", "rounding"))
        return bool(self.rounds) and not self.why and right


@dataclass(frozen=True)
class Tuning:
    """The trials of a call, in the order of `WAYS`, after its check; without trials the check says why.

    `in_program`: a program makes the call, and does with its results what the trials have not seen.
    """

    checked: CaptureResult
    trials: Sequence[Trial] = ()
    seconds: float = 0.0
    notes: Sequence[str] = field(default_factory=tuple)
    in_program: bool = False


def tuned(request: Request, guests: Guests, listener: Listener) -> Tuning | None:
    """Try all ways of one call; None after a cancel. A program runs anew for each comparison and timing, up to that call.

    Raises:
        SkillError: the target is not there, or the machine lacks something.
    """
    start = time.monotonic()
    with _Trials(request._replace(measure="ways"), guests, listener, start) as trials:
        checked = next(session.mapped([request], guests, listener), None)
        if checked is None:
            return None
        if checked.verdict not in _CAPTURED:
            return Tuning(checked)
        took = time.monotonic() - start
        found = _alike(against_eager(trials.compared({trial.name: trial for trial in _wanted(checked)}, _draws(checked))))
        names, notes, began = list(found), [], time.monotonic()
        for number in range(_ROUNDS):
            before, began = began, time.monotonic()
            why = _no_round(number, 2 * began - before - start, took if request.program else 0.0)
            if why:
                notes.append(f"{number} of {_ROUNDS} rounds {'were' if number > 1 else 'was'} made: {why}")
                break
            turned = names[number % len(names) :] + names[: number % len(names)]
            contending = {name: found[name] for name in turned if _contends(found, name)}
            found |= trials.timed(contending, number)
        if trials.cancelled:
            return None
    if request.program:
        notes.append(f"the program was started {1 + trials.processes} times, each time up to the calls that were measured")
    return Tuning(checked, list(found.values()), time.monotonic() - start, notes, bool(request.program))


def _draws(checked: CaptureResult) -> bool:
    """Return whether the call may draw random numbers on the GPU: it did, or its capture failed before that was seen."""
    return not any(step.name == "random" and step.outcome == "skipped" for step in checked.steps)


def _no_round(number: int, after: float, took: float) -> str:
    """Return why round `number` is not made, or "": so many seconds have passed `after` it; a program's check `took` some."""
    if number and took > _LONG:
        return f"the check of the program took {took:.0f} s, and each timing starts it anew"
    return "more would take longer than three minutes" if number and after > _NO_NEW_ROUND else ""


def _contends(found: dict[str, Trial], name: str) -> bool:
    """Return whether a way has to be timed once more: it may be the fastest, or all others are compared with it."""
    trial = found[name]
    if trial.why:
        return False
    right = [each.seconds for each in found.values() if each.is_right]
    return not trial.rounds or name == EAGER or trial.seconds <= _CONTENDS * min(right, default=0.0)


def _wanted(checked: CaptureResult) -> Iterator[Trial]:
    """Yield the ways to compare, and those that need none, with the reason."""
    is_safe = checked.verdict == "safe"
    whole = Trial("") if is_safe else _fails(checked)
    parts = _safe_parts(checked)
    partial = "the whole call captures" if is_safe else "" if parts else "no module of it captures"
    for name, way in WAYS.items():
        if way.by_hand:
            yield replace(whole, name=name)
        else:
            yield Trial(name, modules=parts, why=partial) if name == PARTIAL else Trial(name)


def _fails(checked: CaptureResult) -> Trial:
    """Return why the whole call cannot be a graph, with the line."""
    first = next((finding for finding in checked.findings if finding.observed), None)
    if first is None:
        return Trial("", why=checked.said)
    return Trial("", why=f"{first.id} {first.message}", path=first.path, line=first.line)


def _safe_parts(checked: CaptureResult) -> tuple[str, ...]:
    """Return the outermost modules that capture alone and run once in a call."""
    graphs = checked.map.graphs() if checked.map is not None else []
    return tuple(region.name for region in graphs if region.kind == "module" and abs(region.calls - 1) < _ONCE)


def against_eager(found: dict[str, Trial]) -> dict[str, Trial]:
    """Compare the graphs of compiled calls with eager: they are as far from it as the compiled calls, or further."""
    without = found[COMPILE].agreement or Agreement("unknown", 0.0, "", 0)
    graphs = {name: found[name] for name in GRAPHS_OF_COMPILED}
    return {**found, **{name: replace(graph, agreement=_further(graph.agreement, without)) for name, graph in graphs.items()}}


def _further(graph: Agreement | None, without: Agreement) -> Agreement | None:
    """Return how replays compare with eager, from how they compare with calls `without` a graph and these with eager."""
    if graph is None:
        return None
    worse = max(without, graph, key=lambda agreement: _KINDS.index(agreement.kind))
    return worse._replace(compiled=graph.kind)


def _alike(found: dict[str, Trial]) -> dict[str, Trial]:
    """Return the trials; of two that have graphs of the same modules, one is not timed."""
    partial, outermost = found[PARTIAL], found[MODULES]
    if partial.why or set(partial.modules) != set(outermost.modules):
        return found
    return {**found, PARTIAL: replace(partial, why=f"the same modules as {MODULES}")}


class _Answer(NamedTuple):
    """What the guest found, or `why` it reports nothing; `is_late` if it had no more time."""

    found: dict[str, Any]
    why: str = ""
    is_late: bool = False

    @property
    def is_final(self) -> bool:
        """Return whether it would be the same if nothing had run beside it, or is not worth waiting for once more."""
        return self.is_late or (not self.why and not self.found.get("lacks_memory"))


class _Trials:
    """Makes comparisons and timings, one process each, counted in `processes`."""

    def __init__(self, request: Request, guests: Guests, listener: Listener, start: float) -> None:
        self._request, self._guests, self._start, self._say = request, guests, start, listener.say
        self._quiet = listener._replace(
            say=lambda _: None,
            cancelled=lambda: self.cancelled or listener.cancelled(),
            forward=None,  # a program has printed all that in its check
        )
        self._idle: SimpleQueue[Guests] = SimpleQueue()
        self._stack = ExitStack()
        self.processes, self.cancelled = 0, False

    def __enter__(self) -> _Trials:
        self._beside = _beside(self._request)
        for _ in range(self._beside - 1):
            self._idle.put(self._stack.enter_context(session.Guests()))
        self._turns = self._stack.enter_context(NamedTemporaryFile(prefix="skill-tune-")).name
        self._pool = self._stack.enter_context(ThreadPoolExecutor(self._beside))
        for _ in range(self._beside - 1):  # they import while the call is checked
            self._pool.submit(self._answer, (Trial(COMPILE), "import"), draws=False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cancelled = True  # else the pool would wait for all that it has begun
        self._stack.close()

    def compared(self, wanted: dict[str, Trial], draws: bool) -> dict[str, Trial]:
        """Compare ways with eager calls; compile what timings need, where a comparison has other kernels."""
        self._idle.put(self._guests)  # the check has ended
        open_ = {name: trial for name, trial in wanted.items() if not trial.why and name != EAGER}
        compiling = [(Trial(name), "compile") for name in _KERNELS if draws and self._beside > 1]
        tasks = [*compiling, *((trial, "compare") for trial in open_.values())]
        answers = self._answers(tasks, f"comparing {len(open_)} ways with eager calls", draws)[len(compiling) :]
        return {**wanted, **{name: _compared(open_[name], answer) for name, answer in zip(open_, answers, strict=True)}}

    def timed(self, wanted: dict[str, Trial], number: int) -> dict[str, Trial]:
        """Time ways once more."""
        doing = f"round {number + 1} of {_ROUNDS}: timing {len(wanted)} ways"
        answers = self._answers([(trial, "time") for trial in wanted.values()], doing)
        return {name: _timed(wanted[name], answer) for name, answer in zip(wanted, answers, strict=True)}

    def _answers(self, tasks: Sequence[tuple[Trial, str]], doing: str, draws: bool = False) -> list[_Answer]:
        """Return the answers of tasks beside each other; of one that may have lacked what another had, the answer alone."""
        self._say(doing)
        answers = list(self._pool.map(lambda task: self._answer(task, draws), tasks))
        if self._beside > 1:
            answers = [each if each.is_final else self._answer(task, draws) for task, each in zip(tasks, answers, strict=True)]
        self._say("")
        return answers

    def _answer(self, of: tuple[Trial, str], draws: bool) -> _Answer:
        trial, task = of
        if self.cancelled:
            return _Answer({}, "cancelled")
        if time.monotonic() - self._start > _LAST[task]:
            return _Answer({}, f"not begun: {_LAST[task]:.0f} s had passed")
        way, guests = WAYS[trial.name], self._idle.get()
        self.processes += 1
        threads = len(os.sched_getaffinity(0)) // self._beside if self._beside > 1 else 0
        wanted = requests.Way(way.guest, task, way.is_compiled, self._turns, draws, tuple(trial.modules), threads)
        request = self._request._replace(way=wanted, deadline=self._deadline(task))
        try:
            ended = session.answered(request, guests, self._quiet)
        finally:
            self._idle.put(guests)
        self.cancelled = self.cancelled or ended.ended.get("how") == "cancelled"
        found: Any = (ended.result or {}).get("way")
        if is_found(found, task):
            return _Answer(found)
        return _Answer({}, session.joined(request, ended).said, ended.ended.get("how") == "deadline")

    def _deadline(self, task: str) -> float:
        """Return how many seconds a process has: comparisons of a callable leave time for a round of timings."""
        whole = self._request.deadline
        if self._request.program or task == "time":
            return whole
        return min(whole, max(1.0, round(_COMPARED * whole - (time.monotonic() - self._start))))


def _beside(request: Request) -> int:
    """Return how many processes there are at once: one of a program, which may write files, else as many as have cores."""
    return 1 if request.program else max(1, min(_BESIDE, len(os.sched_getaffinity(0)) // _CORES))


def _compared(trial: Trial, answer: _Answer) -> Trial:
    """Return a trial with its comparison, or why there is none."""
    found = answer.found
    if _fails_as(answer):
        return replace(trial, **_fails_as(answer))
    agreement = Agreement(found["agreement"], found["worst"], found["path"], found["of"])
    return replace(
        trial, agreement=agreement, modules=tuple(found["modules"]), in_inference_mode=bool(found["in_inference_mode"])
    )


def _timed(trial: Trial, answer: _Answer) -> Trial:
    """Return a trial with one round more, or why there is none."""
    if _fails_as(answer):
        return replace(trial, **_fails_as(answer))
    return replace(trial, rounds=[*trial.rounds, Times(*(answer.found[name] for name in Times._fields))])


def _fails_as(answer: _Answer) -> dict[str, Any]:
    """Return why a way fails, with the line; {} if it does not."""
    if answer.why or "error" in answer.found:
        return {
            "why": answer.why or answer.found["error"],
            "path": answer.found.get("path", ""),
            "line": answer.found.get("line", 0),
            "explained": _explained(answer.found.get("error", "")),
        }
    return {}


def _explained(error: str) -> str:
    from cudagraph_skill.diagnosis.entries import open_table  # noqa: PLC0415 - for a failure only
    from cudagraph_skill.diagnosis.rank import diagnose  # noqa: PLC0415
    from cudagraph_skill.paths import skill_root  # noqa: PLC0415

    diagnoses = diagnose(error, open_table(skill_root())).diagnoses if error else []
    return diagnoses[0].id if diagnoses and diagnoses[0].confidence == "high" else ""


_FORMS: dict[str, dict[str, Any]] = {
    "compare": {"agreement": str, "worst": (int, float), "path": str, "of": int, "modules": list, "in_inference_mode": bool},
    "import": {},
    "compile": {},
    "time": {"median": (int, float), "least": (int, float), "most": (int, float), "set_up": (int, float), "memory": int},
    "error": {"error": str, "lacks_memory": bool, "path": str, "line": int},
}


def is_found(found: Any, task: str) -> bool:
    """Return whether a guest's report has what is read from it."""
    if not isinstance(found, dict):
        return False
    form = "error" if "error" in found else task
    typed = all(isinstance(found.get(name), kind) for name, kind in _FORMS[form].items())
    return typed and (form != "compare" or found["agreement"] in _KINDS)
