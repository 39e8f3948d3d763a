"""Check one request in the user's interpreter: import the module, run the checks, report the verdict."""

from __future__ import annotations

import importlib
import platform
import re
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_skill.capture.guest import (
    checks,
    comparison,
    gradients,
    host_only,
    later_steps,
    load,
    rounding,
    stack,
    tensors,
    why_failed,
    why_wrong,
)
from cudagraph_skill.capture.guest.why_wrong import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

_OWN_FRAMES = 4  # of the check, that are named where it fails itself
_PATIENT = 10.0  # seconds of a first recording, up to which a second one of more calls is made


def prepare(request: dict[str, Any]) -> Any:
    """Import the user's module; `run` reports what goes wrong in that."""
    source = load.Source(request)
    try:
        source.load()
    except (load.Misuse, load.Raised) as error:
        return error
    return source


def run(request: dict[str, Any], prepared: Any, report: Any) -> None:
    """Check or measure one callable and report the result."""
    if isinstance(prepared, load.Misuse):
        report.result(without_causes("misuse", str(prepared), request))
    elif isinstance(prepared, load.Raised):
        report.result(raised(prepared, request))
    else:
        report.result(measured(prepared, report))


def measured(source: load.Source, report: Any) -> dict[str, Any]:
    """Return the result that the request asks for: of the check, or of the module of this package that it names."""
    name = source.request.get("measure")
    measure = importlib.import_module(f"cudagraph_skill.capture.guest.{name}").measured if name else checked
    result: dict[str, Any] = measure(source, report)
    return result


def checked(source: load.Source, report: Any) -> dict[str, Any]:
    """Return the result for one source, also if this check itself fails."""
    try:
        result = examine(source, report)
    except Exception as error:  # noqa: BLE001 - a defect of the check must not look like one of the user's code
        frames = traceback.extract_tb(error.__traceback__)[-_OWN_FRAMES:]
        where = " at " + " > ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames)
        said = f"this check itself failed with {why_failed.shown(error)}{where}: please report it"
        result = without_causes("lacking", said, source.request)
    report.draft(result)  # to put back a large model takes time
    try:
        source.put_back()
    except Exception as error:  # noqa: BLE001 - an assertion stopped the GPU, or an object of the user's refuses
        if source.request.get("go_on"):
            result["notes"].append(f"the program goes on with objects that could not be put back: {why_failed.shown(error)}")
    return result


def examine(source: load.Source, report: Any) -> dict[str, Any]:
    """Return the result for one source: verdict, causes, graph, rounds, machine, notes."""
    request = source.request
    why = unusable()
    if why:
        return without_causes("lacking", why, request)
    notes = [*other_processes(), *pinning_threads()]
    try:
        observations = checks.run(source, report)
    except ENDS as error:
        return ended(error, request)
    result = _outcome(source, observations, report)
    result["notes"] = notes + result["notes"]
    report.agree("the verdict", result["verdict"])
    return {**result, "agreed": True, "passed_over": source.lines.passed_over()}


ENDS = (
    load.Misuse,
    load.Raised,
    host_only.WithoutGPUError,
    checks.ReplayError,
    checks.EagerError,
    tensors.OUT_OF_MEMORY,
)


def ended(error: BaseException, request: dict[str, Any]) -> dict[str, Any]:
    """Return the result where one of `ENDS` was raised before replays could be compared."""
    if isinstance(error, load.Misuse):
        return without_causes("misuse", str(error), request)
    if isinstance(error, load.Raised):
        return raised(error, request)
    if isinstance(error, checks.EagerError):
        return raised(load.Raised(f"call {error.number + 1} in eager", error.error), request)
    if isinstance(error, host_only.WithoutGPUError):
        return _without_gpu(error, request)
    if isinstance(error, checks.ReplayError):
        return _replay_failed(error, request)
    return without_causes("lacking", _memory(error), request)


def _replay_failed(error: checks.ReplayError, request: dict[str, Any]) -> dict[str, Any]:
    message = f"captures, but replay {error.number + 1} raised {why_failed.shown(error.error)}"
    cause = Cause("fails", "replay", None, message, error=why_failed.shown(error.error), first=True)
    return _result(request, "capture_error", message, [cause], None, [])


def _without_gpu(error: host_only.WithoutGPUError, request: dict[str, Any]) -> dict[str, Any]:
    """Return the result for calls that only the host makes: a capture of them succeeds, and replays do nothing."""
    changes = ", ".join(error.changes[:4]) + ", …" * (len(error.changes) > 4)
    lost = f"does nothing on the GPU, and no replay makes what changes from call to call ({changes})"
    cause = Cause("wrong", "host-only", error.line, f"{lost}: call it between replays", first=True)
    return _result(request, "silent_wrong", f"captures an empty graph: {error.name} {lost}", [cause], None, [])


def _outcome(source: load.Source, observations: checks.Observations, report: Any) -> dict[str, Any]:
    """Return the result after the replays; every rank takes part in what one of them needs, for its own verdict or not."""
    if observations.captured.failed:
        return _failed(source, observations, report)
    later_steps.run(source, observations, report)
    differs = bool(observations.wrong or observations.captured.stuck)
    causes, small = _judged(source, observations, report) if report.any("whether replays differ", differs) else ([], None)
    wrong = differs and small is None
    noisy = not wrong and (observations.spread > checks.SURE or (small is not None and small.is_chaos))
    changes = _unrepeatable(source, observations, report) if report.any("whether eager does not repeat itself", noisy) else []
    if wrong:
        notes = [*_unexplained(observations, causes), *_empty(observations)]
        return _result(source.request, "silent_wrong", _sentence(observations), causes, observations, notes)
    if noisy:
        return _cannot_be_compared(source, observations, changes, small)
    if small is not None:
        notes = [*_why_rounded(small, causes), *_drifts(observations), *_empty(observations), *gradients.notes(source, report)]
        return _result(source.request, "safe", _rounded(observations, small), [], observations, notes, small)
    notes = [*_without_effect(observations), *_drifts(observations), *_empty(observations), *gradients.notes(source, report)]
    within = comparison.compare(observations.after, observations.captured.calls, comparison.own_spread({}))
    if within is not None:
        return _within_own_spread(source, observations, within, notes)
    return _result(source.request, "safe", _sentence(observations), [], observations, notes)


def _within_own_spread(
    source: load.Source, observations: checks.Observations, within: comparison.Wrong, notes: list[str]
) -> dict[str, Any]:
    """Return the result where replays are as far from eager as eager copies are from each other."""
    spread = observations.spreads.get(within.path, 0.0)
    sentence = (
        f"captures, and {len(observations.captured.calls)} replays equal eager within its own spread{_until(observations)}: "
        f"{within.path} differs by {within.worst:.2g}, and by {spread:.2g} in two eager runs from the same state and seed"
    )
    result = _result(source.request, "safe", sentence, [], observations, notes)
    found = {"agreement": "rounding", "worst": within.worst, "path": within.path, "moves": spread}
    return {**result, "rounds": {**result["rounds"], **found}}


def _drifts(observations: checks.Observations) -> list[str]:
    """Return a note if eager itself parts after some calls, from where on replays were not compared."""
    drift = observations.drift
    if drift is None:
        return []
    return [
        f"two eager runs from the same state and seed are equal but for rounding up to call {drift.call}, then {drift.far:.2g} apart "
        f"in {drift.path}: the program enlarges rounding, and later replays cannot be compared with eager"
    ]


def _without_effect(observations: checks.Observations) -> list[str]:
    """Return a note on a number among the arguments that changes, where replays are right all the same."""
    said = "every replay has that of the capture, and equals eager all the same"
    return [f"{sentence}; {said}" for sentence in observations.captured.numbers[:1]]


def _judged(
    source: load.Source, observations: checks.Observations, report: Any
) -> tuple[list[Cause], rounding.Rounding | None]:
    """Return the causes of a difference, and its size if it is rounding and nothing else explains it."""
    causes, decided = _explained(source, observations, report)
    differs = observations.wrong is not None
    numbers = bool(differs and not decided and observations.captured.numbers)
    if report.any("whether a number in the arguments may make it", numbers):
        decided = (rounding.keeps_numbers(source, observations) and numbers) or decided
    if not report.any("whether a difference may be rounding", differs and not decided):
        return causes, None
    small = rounding.judged(source, observations, report)
    return causes, None if decided else small


def _unexplained(observations: checks.Observations, causes: list[Cause]) -> list[str]:
    """Return a note on the numbers that change from call to call, where no line was seen to use them."""
    if not observations.changing or why_wrong.beyond_rounding(causes):
        return []
    numbers = [f"{path} ({then!r}, then {now!r})"[:120] for path, (then, now) in list(observations.changing.items())[:4]]
    return [
        f"these change from call to call in eager: {', '.join(numbers)}; a kernel that is called past torch's dispatcher, such as a "
        "fused optimizer, may take them as numbers"
    ]


def _rounded(observations: checks.Observations, small: rounding.Rounding) -> str:
    moves = (
        f", and eager itself moves by {small.moves:.2g} when its numbers move by one unit in the last place"
        if small.moves is not None
        else ""
    )
    return (
        f"captures, and {len(observations.captured.calls)} replays equal eager within rounding{_until(observations)}: "
        f"{small.wrong.path} differs by {small.wrong.worst:.2g}{moves}"
    )


def _why_rounded(small: rounding.Rounding, causes: list[Cause]) -> list[str]:
    """Return what makes replays differ by rounding: a line that asks whether a stream captures, or an operation."""
    asked = [
        f"{place.path}:{place.line} in {place.function}" for place in (line.library or line.places[-1] for line in small.asks)
    ]
    notes = []
    if asked and small.follows_captured_path:
        notes.append(
            f"takes another path while a stream captures, asked at {', '.join(asked[:3])}: an eager run on that path is within "
            f"{small.follows:.2g} of the replays"
        )
    seen = [cause for cause in causes if cause.place is not None]
    if seen and not notes:
        place = seen[0].library or seen[0].place
        where = f"{place.path}:{place.line}" if place else ""
        notes.append(f"{where} {seen[0].message}")
    return notes


def _cannot_be_compared(
    source: load.Source, observations: checks.Observations, causes: list[Cause], small: rounding.Rounding | None
) -> dict[str, Any]:
    sentence = "captures, but freezes what changes from call to call in eager, which never repeats itself"
    if not causes:
        sentence = f"captures, but replays cannot be compared with eager: {_why_not(observations, small)}"
    verdict = "silent_wrong" if causes else "not_repeatable"
    result = _result(source.request, verdict, sentence, causes, observations, _empty(observations))
    result["rounds"]["agreement"] = "not repeatable"
    return result


def _why_not(observations: checks.Observations, small: rounding.Rounding | None) -> str:
    """Return why a comparison of replays with eager says nothing."""
    if small is not None:
        return (
            f"{small.wrong.path} differs by {small.wrong.worst:.2g}, and eager itself moves by {small.moves or 0.0:.2g} when its "
            "numbers move by one unit in the last place"
        )
    return (
        f"two eager runs from the same state and seed differ in {observations.unsteady} by {observations.spread:.2g}; an iterator, "
        "a file or a clock may advance between them, or kernels add in another order each time"
    )


def _empty(observations: checks.Observations) -> list[str]:
    """Return a note if the graph is empty."""
    empty = observations.captured.nodes is not None and not observations.captured.nodes.kinds
    return ["the graph is empty: nothing of the call runs on the GPU's capturing stream"] if empty else []


def _sentence(observations: checks.Observations) -> str:
    replays = len(observations.captured.calls)
    if observations.wrong is not None:
        first = observations.wrong.calls[0]
        when = "the first replay" if first == 0 else f"replay {first + 1}"
        return f"captures, but from {when} of {replays} on it is not what eager computes: {observations.wrong.path} is off by {observations.wrong.worst:.2g}"
    if observations.captured.stuck:
        return f"captures, but a replay cannot follow its inputs: {observations.captured.stuck[0]}"
    return f"captures, and {replays} replays, {replays - 1} of them on new inputs, equal eager{_until(observations)}"


def _until(observations: checks.Observations) -> str:
    """Continue a sentence about replays with the call after which eager never repeats itself."""
    return (
        f" up to call {observations.drift.call}, after which eager never repeats itself"
        if observations.drift is not None
        else ""
    )


def _failed(source: load.Source, observations: checks.Observations, report: Any) -> dict[str, Any]:
    """Return the result after a failed capture; "stopped" for a rank whose own did not fail."""
    error = observations.captured.error
    cause = why_failed.innermost(observations.captured.inner or error) if error is not None else None
    if cause is not None:
        report.step("capture", "failed", why_failed.shown(cause))
    result = _unexplained_failure(source, observations, cause)
    report.draft({**result, "agreed": True})  # what explains it may take long, or hang where only one rank's capture failed
    if report.any("whether memory is short", result["verdict"] == "lacking"):
        return result
    causes, notes = why_failed.explain(source, observations, report)
    if result["verdict"] != "capture_error":
        return result
    return _result(source.request, "capture_error", result["said"], causes, observations, notes)


def _unexplained_failure(source: load.Source, observations: checks.Observations, cause: BaseException | None) -> dict[str, Any]:
    if cause is None:
        sentence = "captures here, and was not replayed, because the capture failed on another rank"
        return without_causes("stopped", sentence, source.request)
    if isinstance(cause, tensors.OUT_OF_MEMORY):
        return without_causes("lacking", _memory(cause), source.request)
    causes = [why_failed.first_cause(observations)]
    return _result(source.request, "capture_error", f"fails at capture: {why_failed.shown(cause)}", causes, observations, [])


def _explained(source: load.Source, observations: checks.Observations, report: Any) -> tuple[list[Cause], bool]:
    """Return the causes of a difference, and whether one of them makes it wrong however small it is."""
    report.progress("looking for the first operation that differs")
    causes = [*_arguments(observations.captured.stuck), *_drawn(source)]
    wrong, final = observations.wrong, len(observations.captured.calls) - 1
    first = int(report.most("the first replay that differs", wrong.calls[0] if wrong is not None else -1))
    if first < 0:
        return causes, True
    start = time.monotonic()
    lines, failed = _lines(source, observations, max(1, first))
    took = report.most("the time of a recording", time.monotonic() - start)
    undecided = wrong is not None and not failed and not why_wrong.beyond_rounding(causes + lines)
    if took < _PATIENT and first < final and report.any("whether a later replay tells more", undecided):
        later, _ = _lines(source, observations, final)
        lines = later if why_wrong.beyond_rounding(later) else lines
    if failed:
        report.step("diverge", "skipped", failed, time.monotonic() - start)
        return causes + _arguments(observations.captured.numbers), bool(causes)
    if wrong is None:
        return causes, True
    where = (
        f"first at line {lines[0].place.line}"
        if lines and lines[0].place
        else "no operation differs: the state was replaced from Python"
    )
    report.step("diverge", "ok", where, time.monotonic() - start)
    decided = bool(why_wrong.beyond_rounding(causes + lines))  # a number that matters shows in a line
    causes += _arguments(observations.captured.numbers)
    if causes:
        lines = [line._replace(first=False) for line in lines]
    return causes + lines, decided


def _arguments(sentences: Sequence[str]) -> list[Cause]:
    """Return the first sentence about arguments that a replay cannot follow, as a cause."""
    return [Cause("wrong", "argument-number", None, sentence) for sentence in sentences[:1]]


def _lines(source: load.Source, observations: checks.Observations, last: int) -> tuple[list[Cause], str]:
    """Return the lines behind a difference, by calls up to `last` after the capture, and why they could not be recorded."""
    try:
        logs = why_wrong.recorded(source, observations, last)
        if observations.wrong is None:
            return [], ""
        lines = why_wrong.explain(logs, observations)
        if why_wrong.beyond_rounding(lines):
            return lines, ""
        exact = why_wrong.beyond_rounding(why_wrong.explain(logs, observations, exact=True))
    except BaseException as error:  # noqa: BLE001 - an explanation that fails must not cost the verdict
        return [], f"recording operations raised {why_failed.shown(error)}"
    return exact or lines, ""


def _drawn(source: load.Source) -> list[Cause]:
    """Return the lines that draw from an iterator which lives longer than one call."""
    draws = source.last.draws if source.last is not None else []
    message = "advances an iterator during capture: every replay reuses the item drawn then"
    return [
        Cause("wrong", "iterator-advance", frames[-1], message, via=tuple(stack.via(frames)), first=number == 0)
        for number, frames in enumerate(draws)
    ]


def _unrepeatable(source: load.Source, observations: checks.Observations, report: Any) -> list[Cause]:
    """Return the causes of what changes from call to call, where results cannot be compared."""
    report.progress("recording what changes from call to call")
    start = time.monotonic()
    try:
        lines = why_wrong.unrepeatable(source, observations)
    except BaseException as error:  # noqa: BLE001 - an explanation that fails must not cost the verdict
        report.step("diverge", "skipped", f"recording operations raised {why_failed.shown(error)}", time.monotonic() - start)
        return []
    report.step(
        "diverge", "differs" if lines else "ok", "numbers and operations of several eager calls", time.monotonic() - start
    )
    return lines


# Results --------------------------------------------------------------------------------------------------------------


def _result(
    request: dict[str, Any],
    verdict: str,
    sentence: str,
    causes: list[Cause],
    observations: checks.Observations | None,
    notes: list[str],
    small: rounding.Rounding | None = None,
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "verdict": verdict,
        "said": sentence,
        "target": request.get("found") or {"path": request.get("file", ""), "line": 0, "name": request.get("name", "")},
        "causes": [_cause(cause) for cause in causes],
        "graph": None,
        "rounds": None,
        "machine": machine(),
        "notes": notes,
    }
    if observations is None:
        return result
    if observations.captured.nodes is not None:
        result["graph"] = {"nodes": observations.captured.nodes.kinds, "host_copies": observations.captured.nodes.host_copies}
    result["rounds"] = {
        **_rounds(observations),
        "moves": (small.moves or 0.0) if small else 0.0,
        "agreement": _agreement(observations, small),
    }
    return result


def _rounds(observations: checks.Observations) -> dict[str, Any]:
    wrong = observations.wrong
    return {
        "replayed": len(observations.captured.calls),
        "wrong": wrong.calls if wrong else [],
        "worst": min(wrong.worst, 1e9) if wrong else 0.0,
        "tolerance": wrong.tolerance if wrong else 0.0,
        "path": wrong.path if wrong else "",
        "changing": {path: [repr(number)[:40] for number in pair] for path, pair in list(observations.changing.items())[:8]},
        "moved": sorted(observations.moved),
    }


def _agreement(observations: checks.Observations, small: rounding.Rounding | None) -> str:
    """Return whether replays equal eager: equal, rounding, wrong; "" if none was made."""
    if not observations.captured.calls:
        return ""
    if small is not None:
        return "rounding"
    return "wrong" if observations.wrong or observations.captured.stuck else "equal"


def _cause(cause: Cause) -> dict[str, Any]:
    place = cause.place or stack.Place("", 0, "")
    return {
        "kind": cause.kind,
        "category": cause.category,
        "path": place.path,
        "line": place.line,
        "function": place.function,
        "op": cause.op,
        "error": cause.error,
        "said": cause.message,
        "via": list(cause.via),
        "first": cause.first,
        "library": _library(cause.library),
    }


def _library(place: stack.Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    name, version = stack.package(place.path)
    return {"path": place.path, "line": place.line, "function": place.function, "package": name, "version": version}


def without_causes(verdict: str, sentence: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a result that says something of the call as a whole."""
    return _result(request, verdict, sentence, [], None, [])


def raised(problem: load.Raised, request: dict[str, Any]) -> dict[str, Any]:
    """Return the result if the user's code raised outside of any capture."""
    error, doing = problem.error, problem.doing
    if isinstance(error, tensors.OUT_OF_MEMORY):
        return without_causes("lacking", _memory(error), request)
    place = why_failed.place_of(error)
    where = f" at {place.path}:{place.line}" if place else ""
    if isinstance(error, SystemExit):
        sentence = f"{doing} called sys.exit({error.code!r}){where}: name a callable that returns"
    elif isinstance(error, SyntaxError):
        sentence = f"{doing} is not possible: {error.msg} at line {error.lineno}"
    else:
        sentence = f"{doing} raised {why_failed.shown(error)}{where}"
    causes = [Cause("note", "eager", place, "raises in eager", error=why_failed.shown(error))] if place else []
    return _result(request, "error_in_eager", sentence, causes, None, [])


def _memory(error: BaseException) -> str:
    free, total = (size / 2**30 for size in torch.cuda.mem_get_info())
    asked = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
    wanted = f" (it asked for {asked[1]} more)" if asked else ""
    return f"the GPU has too little memory for this check{wanted}: {free:.1f} of {total:.1f} GiB are free; make the inputs or the model smaller"


def unusable() -> str:
    """Return why the GPU cannot be used, as one sentence; "" if it can."""
    try:
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
    except tensors.OUT_OF_MEMORY as error:
        return _memory(error)
    except Exception as error:  # noqa: BLE001 - whatever CUDA says
        reason = str(error).strip().split("\n")[0][:200]
        return f"the GPU cannot be used: {reason}; look at nvidia-smi"
    return ""


def other_processes() -> list[str]:
    """Return a note if other processes hold much of the GPU's memory."""
    free, total = torch.cuda.mem_get_info()
    held = total - free - torch.cuda.memory_reserved()
    if held < 2 << 30:
        return []
    return [f"other processes hold {held / 2**30:.1f} GiB of this GPU: do not compare times while they run"]


def pinning_threads() -> list[str]:
    """Return a note if a DataLoader pins memory in a thread of this process: our capture bears that, another may not."""
    if not checks.pins_memory():
        return []
    return [
        "a DataLoader's thread pins memory while the program runs: a capture in the default mode fails if that happens meanwhile, "
        'so capture before iter(loader), or as here with capture_error_mode="thread_local" (capture-pin-memory-thread)'
    ]


def machine() -> dict[str, str]:
    """Return GPU, driver, torch, CUDA and Python of this run."""
    driver = ""
    with suppress(OSError):
        match = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", Path("/proc/driver/nvidia/version").read_text(encoding="utf-8"))
        driver = match[1] if match else ""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_initialized() else ""
    return {
        "gpu": gpu,
        "driver": driver,
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "python": platform.python_version(),
        "executable": sys.executable,
    }
