"""Send requests to the guest, and join its results with the static check."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture import cost, neighbours, ranks
from cudagraph_skill.capture.hazard_of import hazard_of, plain
from cudagraph_skill.capture.region_map import is_map, of_result
from cudagraph_skill.capture.reports import is_result
from cudagraph_skill.capture.request import Request, eager_command, locate, to_guest
from cudagraph_skill.capture.result import CaptureResult, Step
from cudagraph_skill.capture.way_out import hook
from cudagraph_skill.check import check_paths
from cudagraph_skill.check.findings import Finding, Library, Region
from cudagraph_skill.check.hazards import hazard
from cudagraph_skill.check.input.settings import Options, settings
from cudagraph_skill.check.input.source import lines_of
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from cudagraph_skill.capture.host import Ended, Guest
    from cudagraph_skill.capture.hub import Hub
    from cudagraph_skill.capture.region_map import RegionMap

    Say = Callable[[str], object]

_AFTER_RANKS = 8.0  # seconds after their deadline that ranks have to end; a driver may take five for one process
_LONG, _QUOTED = 200, 70  # characters of an error and of a source line that are repeated in a finding


class Guests:
    """Keeps a guest warm from one request to the next with the same interpreter and folder; one at a time."""

    def __init__(self) -> None:
        self._key: tuple[str, str] = ("", "")
        self._guest: Guest | None = None

    def __enter__(self) -> Guests:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def warm(self, request: Request) -> bool:
        """Return whether a guest for such a request is ready."""
        return self._guest is not None and self._key == (request.python, request.folder)

    def guest(self, request: Request, listener: Listener) -> Guest:
        """Return the warm guest, or a new one.

        Raises:
            SkillError: the interpreter cannot be started, or lacks torch, a GPU, or a Python that is new enough; or it was
                cancelled.
        """
        from cudagraph_skill.capture.host import Guest  # noqa: PLC0415 - for a run only

        if self._guest is None or not self.warm(request):
            self.close()
            listener.say(f"importing torch in {request.python}")
            self._guest = Guest(request.python, request.folder, cancelled=listener.cancelled)
            self._key = (request.python, request.folder)
        return self._guest

    def close(self) -> None:
        """End the guest, and all that it started."""
        guest, self._guest = self._guest, None
        if guest is not None:
            guest.close()


def _never() -> bool:
    return False


class Listener(NamedTuple):
    """Callbacks for a run: `say` gets progress ("" for none), `forward` the program's output as bytes.

    `cancelled` is asked many times a second and ends the run with True.
    """

    say: Say
    cancelled: Callable[[], bool] = _never
    forward: Callable[[bytes], None] | None = None

    def on_event(self, event: dict[str, Any]) -> None:
        """Take an event of the guest."""
        if event.get("event") == "progress":
            self.say(str(event.get("said", "")))


def examine(requests: Iterable[Request], guests: Guests, listener: Listener) -> Iterator[CaptureResult]:
    """Capture one request after the other; yield each result as it is ready, and none after a cancel.

    Raises:
        SkillError: a target is not there, or the machine lacks something.
    """
    for request in requests:
        try:
            result = _examined(request, guests, listener)
        finally:
            listener.say("")
        if result is None:
            return
        shown_live = bool(request.program) and listener.forward is not None
        yield result._replace(output="") if shown_live else result


def mapped(requests: Iterable[Request], guests: Guests, listener: Listener) -> Iterator[CaptureResult]:
    """Capture one request after the other as `examine` does, and map the parts of each."""
    return examine([request._replace(measure="mapping") for request in requests], guests, listener)


def _examined(request: Request, guests: Guests, listener: Listener) -> CaptureResult | None:
    """Return the result of one request; None after a cancel."""
    if request.launch:
        return _ranks(request, listener)
    beside = neighbours.utilization() if request.measure else ""
    ended = answered(request, guests, listener)
    if ended.ended.get("how") == "cancelled":
        return None
    result = joined(request, ended, ended.output)
    return result._replace(notes=[beside, *result.notes]) if beside else result


def answered(request: Request, guests: Guests, listener: Listener) -> Ended:
    """Return what the guest reports of one request, as it came.

    Raises:
        SkillError: the target is not there, or the machine lacks something.
    """
    return _program(request, listener) if request.program else _callable(request, guests, listener)


def joined(request: Request, ended: Ended, output: str = "") -> CaptureResult:
    """Join a report; one of other types, or with a path that no file can have, was not written by the guest."""
    with suppress(ValueError):
        if ended.result is None or is_result(ended.result):
            return joined_result(request, ended.result, ended.steps, ended.ended, output)
    said = "the report of this run cannot be read: something else wrote into its pipe; run it again"
    return joined_result(request, {"verdict": "lacking", "said": said}, [], {}, output)


def _program(request: Request, listener: Listener, hub: Hub | None = None) -> Ended:
    """Run the user's program; with a `hub` it is that of several ranks, which end at the deadline by themselves."""
    from cudagraph_skill.capture.host import run_program  # noqa: PLC0415 - for a run only

    listener.say(f"running {shlex.join(request.program)}, to capture {request.target} in it")
    return run_program(
        request.python,
        request.program,
        request.folder,
        deadline=request.deadline + (_AFTER_RANKS if hub else 0),
        request=to_guest(request),
        flags=request.flags,
        memory=request.memory,
        forward=listener.forward,
        on_event=listener.on_event,
        cancelled=lambda: listener.cancelled() or (hub is not None and hub.is_over()),
        hub=hub,
    )


def _ranks(request: Request, listener: Listener) -> CaptureResult | None:
    """Run the user's program under torchrun and join what its ranks report; None after a cancel."""
    from cudagraph_skill.capture.hub import Hub  # noqa: PLC0415 - for a run only

    with Hub(to_guest(request), request.deadline) as hub:
        whole = _program(request, listener, hub)
        if listener.cancelled():
            return None
        hub.look()  # what they said last
    if not hub.ranks:
        result = whole.result or ranks.not_begun(whole)
        return joined(request, whole._replace(result=result, ended={}), whole.output)
    results = {
        number: joined(request, whole._replace(result=result, steps=hub.steps(number), ended=ended), whole.output)
        for number, (result, ended) in ranks.outcomes(hub, whole).items()
    }
    whole_result = ranks.together(results, hub)
    left = whole.ended.get("left_behind") if whole.ended.get("how") != "cancelled" else 0  # what we ended is not its fault
    return whole_result._replace(notes=[*whole_result.notes, *_end(None, {"left_behind": left, "unread": hub.unread_lines()})])


def _callable(request: Request, guests: Guests, listener: Listener) -> Ended:
    """Send the request to the guest; one that was warm but has died is replaced once."""
    wire, warm = to_guest(request), guests.warm(request)
    while True:
        guest = guests.guest(request, listener)
        listener.say(f"importing and capturing {request.target}")
        try:
            return guest.ask(wire, request.deadline, request.memory, listener.on_event, listener.cancelled)
        except SkillError:
            guests.close()
            if not warm:
                raise
            warm = False


# A result -------------------------------------------------------------------------------------------------------------


def joined_result(
    request: Request,
    result: dict[str, Any] | None,
    steps: Sequence[dict[str, Any]],
    ended: dict[str, Any],
    output: str = "",
) -> CaptureResult:
    """Join a guest's report with the static check; without a result, describe how the run ended."""
    finished = [_step(event) for event in steps]
    answer = result or _without_result(request, finished, ended)
    shown = _Names(request)
    target = _target(answer, shown, request)
    verdict = str(answer.get("verdict", "lacking"))
    causes = [cause for cause in answer.get("causes") or () if isinstance(cause, dict)]
    passed_over = {os.path.realpath(path): set(lines) for path, lines in (answer.get("passed_over") or {}).items()}
    static, left = _split(static_findings(target), passed_over)
    findings, unconfirmed = _findings(verdict, causes, static, shown, target)
    trainer = hook((line["path"], line["function"]) for line in answer.get("libraries") or ())
    return CaptureResult(
        verdict=verdict,
        said=_sentence(verdict, str(answer.get("said", "")), causes, shown),
        findings=findings,
        unconfirmed=[*unconfirmed, *left],
        steps=finished,
        graph=answer.get("graph") or {},
        rounds=answer.get("rounds") or {},
        machine=answer.get("machine") or {},
        notes=[
            *([trainer.hook] if trainer else ()),
            *map(str, answer.get("notes") or ()),
            *(_notes(causes, shown) if verdict in _CAPTURED else ()),
            *_end(result, ended),
            *_for_ranks(request, str(answer.get("said", ""))),
        ],
        target=target,
        output=output,
        command=eager_command(request),
        signatures=answer.get("signatures") or (),
        map=_map(answer, shown, target, findings),
        reference=trainer.reference if trainer else "",
        cost=cost.of_result(answer["costs"]) if cost.is_costs(answer.get("costs")) else None,
    )


def _map(answer: dict[str, Any], shown: _Names, target: Region, findings: list[Finding]) -> RegionMap | None:
    """Return the map of a result, with the first line of each region that does not capture, for the whole of `findings`."""
    given: dict[str, Any] = answer.get("map") or {}
    if not is_map(given):
        return None
    nothing: dict[str, list[Finding]] = {"error": [], "warning": []}
    causes = {
        row["number"]: [item for item in row["causes"] if item.get("kind") in ("fails", "wrong")] for row in given["regions"]
    }
    first = {number: _observed(items[0], nothing, shown, target) for number, items in causes.items() if items}
    if findings and findings[0].observed:
        first[given["regions"][0]["number"]] = findings[0]
    return of_result(given, first)


_CAPTURED = ("safe", "capture_error", "silent_wrong", "not_repeatable")  # eager calls came back


def _sentence(verdict: str, sentence: str, causes: list[dict[str, Any]], shown: _Names) -> str:
    """Return the guest's sentence with paths as the user wrote them; if eager code failed, with its line."""
    where = [(str(cause["path"]), int(cause.get("line") or 0)) for cause in causes if cause.get("path")]
    for path, _ in where:
        sentence = sentence.replace(path, shown.of(path))
    if verdict in _CAPTURED or not where or f":{where[0][1]}" in sentence:
        return sentence
    return f"{sentence} at {shown.of(where[0][0])}:{where[0][1]}"


def _step(event: dict[str, Any]) -> Step:
    return Step(
        str(event.get("name", "")), str(event.get("outcome", "")), str(event.get("said", "")), float(event.get("seconds") or 0)
    )


class _Names:
    """Paths as the user wrote them, else relative to the current folder if below it."""

    def __init__(self, request: Request) -> None:
        self._written: dict[str, str] = {}
        with suppress(SkillError):
            path = "" if request.program else locate(request.target)[0]
            self._written = {os.path.realpath(path): path} if path else {}

    def of(self, path: str) -> str:
        real = os.path.realpath(path)
        if real in self._written or not path or path.startswith("<"):
            return self._written.get(real, path)
        here = os.path.realpath(os.curdir) + os.sep
        return real.removeprefix(here)


def _target(answer: dict[str, Any], shown: _Names, request: Request) -> Region:
    target = answer.get("target") or {}
    if target.get("path"):
        name = str(target.get("name", "")).replace("<locals>.", "")
        return Region(shown.of(target["path"]), int(target.get("line") or 0), name, "run")
    name = request.target or shlex.join(request.program)
    with suppress(SkillError):
        path, module, function = ("", "", "") if request.program else locate(request.target)
        return Region(path, 0, function or path or name if not module else name, "run")
    return Region("", 0, name, "run")


def static_findings(target: Region) -> list[Finding]:
    """Return what the static check finds in the captured code; [] if it cannot read it."""
    if not target.path or not target.line:
        return []
    try:
        report = check_paths([f"{target.path}:{target.name}"], settings(Path(target.path), Options()))
    except Exception:  # noqa: BLE001 - what the run saw stands without it
        return []
    return report.findings


def _split(static: list[Finding], passed_over: dict[str, set[Any]]) -> tuple[list[Finding], list[Finding]]:
    """Return the findings of the static check at lines that ran or were not followed, and those that the call passed over."""
    left = [finding for finding in static if finding.line in passed_over.get(os.path.realpath(finding.path), ())]
    return [finding for finding in static if finding not in left], left


def _findings(
    verdict: str, causes: list[dict[str, Any]], static: list[Finding], shown: _Names, target: Region
) -> tuple[list[Finding], list[Finding]]:
    """Return findings and unconfirmed findings. Observed lines come first, the one that stopped the run before the others."""
    serious = {kind: [item for item in static if hazard(item.id).severity == kind] for kind in ("error", "warning")}
    if verdict not in ("capture_error", "silent_wrong"):
        return [], [*serious["error"], *serious["warning"]]
    fails = verdict == "capture_error"
    wanted = sorted(
        (item for item in causes if item.get("kind") in ("fails", "wrong")),
        key=lambda item: (item["kind"] != ("fails" if fails else "wrong"), not item.get("first")),
    )
    observed = _once(_observed(item, serious, shown, target) for item in wanted)
    lines = {_place(item) for item in observed}
    errors, warnings = ([item for item in serious[kind] if _place(item) not in lines] for kind in ("error", "warning"))
    return ([*observed, *errors], warnings) if fails else ([*observed, *warnings, *errors], [])


def _once(findings: Iterator[Finding]) -> list[Finding]:
    return list({(_place(finding), finding.id): finding for finding in reversed(list(findings))}.values())[::-1]


def _place(finding: Finding) -> tuple[str, int]:
    return os.path.realpath(finding.path), finding.line


def _observed(cause: dict[str, Any], serious: dict[str, list[Finding]], shown: _Names, target: Region) -> Finding:
    """Return the finding for an observed line, in the words of the static check if it found the same line."""
    path, line = (
        (shown.of(str(cause["path"])), int(cause.get("line") or 0)) if cause.get("path") else (target.path, target.line)
    )
    known = serious["error" if cause.get("kind") == "fails" else "warning"]
    same = next((finding for finding in known if _place(finding) == (os.path.realpath(path), line)), None)
    via = tuple(map(str, cause.get("via") or ()))
    library = Library(**cause["library"]) if cause.get("library") else None
    if same is not None:
        return same._replace(path=path, via=via or same.via, certain=True, observed=True, library=library)
    text = _line(path, line)
    column = len(text) - len(text.lstrip()) + 1 if text.strip() else 1
    return Finding(path, line, column, hazard_of(cause, text), _message(cause, text), via, observed=True, library=library)


def _line(path: str, line: int) -> str:
    lines = lines_of(path)[0] if path and not path.startswith("<") else []
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _message(cause: dict[str, Any], text: str) -> str:
    """Return what was seen: the source line as subject of the guest's sentence, then the operation and its error."""
    message, error = " ".join(str(cause.get("said", "")).split()), str(cause.get("error", "")).strip().split("\n")[0][:_LONG]
    operation = plain(str(cause.get("op", "")))
    code = " ".join(text.split()) if cause.get("path") else ""
    subject = code if len(code) <= _QUOTED else f"{code[: _QUOTED - 1]}…"
    details = "; ".join(
        part
        for part in (f"in {operation}" if operation and operation not in message else "", error)
        if part and part not in message
    )
    return f"{f'`{subject}` ' if subject else ''}{message or 'fails at capture'}{f' ({details})' if details else ''}"


_TRACKER = "megatron/core/tensor_parallel/random.py"  # fails at capture only where it holds plain states


def _notes(causes: list[dict[str, Any]], shown: _Names) -> list[str]:
    notes = []
    if any(str(cause.get("path", "")).endswith(_TRACKER) for cause in causes):
        notes.append(
            "the random states of Megatron's tracker cannot be captured: seed with `model_parallel_cuda_manual_seed(seed, "
            "use_cudagraphable_rng=True)`, or `--te-rng-tracker` where Transformer Engine is installed"
        )
    for cause in causes:
        if cause.get("kind") == "note":
            path, line = shown.of(str(cause.get("path", ""))), int(cause.get("line") or 0)
            notes.append(f"{path}:{line}: {_message(cause, _line(path, line))}" if path else str(cause.get("said", "")))
    return notes


# Ends without a result ------------------------------------------------------------------------------------------------

_ELSEWHERE = re.compile("^<|site-packages|dist-packages|/lib/python3|/cudagraph_skill/")  # frames that are not the user's
_PAST_EAGER = {
    "warm-up",
    "eager",
    "sync",
    "capture",
    "replay",
}  # where one of these steps was reached, eager calls had come back


def _without_result(request: Request, steps: list[Step], ended: dict[str, Any]) -> dict[str, Any]:
    """Return a result for a run that ended early; the finished steps tell whether eager code or the graph is to blame."""
    how, detail = str(ended.get("how", "")), str(ended.get("detail", ""))
    if how == "memory":
        sentence = f"it needed more than {request.memory / (1 << 30):.3g} GB of host memory; raise `--memory` if that is right"
        return {"verdict": "lacking", "said": sentence}
    if request.program and not steps and how == "exit" and detail == "0":
        sentence = "the program's process ended before the check (exit code 0): by os._exit, or another program took its place"
        return {"verdict": "misuse", "said": f"{sentence}; name a target that is called earlier, or use a smaller `--skip`"}
    ends = {
        "deadline": f"it had not come back after {request.deadline:g} s",
        "signal": f"the process died of {detail or 'a signal'}",
        "exit": f"the code ended its own process ({f'exit code {detail}' if detail.isdigit() else detail or 'exit'})",
    }
    if how not in ends:
        return {"verdict": "lacking", "said": f"the run ended without a result ({detail or how or 'no reason given'})"}
    done = [step.name for step in steps if step.outcome == "ok"]
    after = f" (done: {', '.join(done)})" if done else ""
    longer = "; `--deadline` gives it longer" * (how == "deadline")
    past_eager = any(step.name in _PAST_EAGER and step.outcome in ("ok", "differs") for step in steps)
    where = _where(ended.get("stack") or (), _Names(request))
    return {"verdict": "capture_error" if past_eager else "error_in_eager", "said": f"{ends[how]}{after}{where}{longer}"}


def _where(stack: Sequence[Any], shown: _Names) -> str:
    """Return the innermost frame of the user's own, in words."""
    own = [frame for frame in stack if not _ELSEWHERE.search(str(frame[0]))]
    return f"; it was at {shown.of(own[-1][0])}:{own[-1][1]} in {own[-1][2]}" if own else ""


def _end(result: dict[str, Any] | None, ended: dict[str, Any]) -> list[str]:
    """Return notes about how a run ended that gave a result."""
    notes = []
    if result is not None and ended.get("how") == "deadline":
        notes.append(
            f"after this result it ran into the deadline of {ended.get('detail')}; `--deadline` gives it longer to say more"
        )
    elif result is not None and ended.get("how", "done") != "done":
        notes.append(f"after the result the process ended by {ended.get('detail') or ended.get('how')}")
    if unread := int(ended.get("unread") or 0):
        notes.append(f"{unread} reports could not be read: something else wrote into their pipe, or a writer was killed")
    if left := int(ended.get("left_behind") or 0):
        notes.append(f"the code left {left} processes behind: they were ended")
    return notes


def _for_ranks(request: Request, sentence: str) -> list[str]:
    """Return a note on a program that torchrun has to start, and that was started without."""
    lacks = request.program and not request.launch and "environment variable RANK expected" in sentence
    return ["torchrun has to start this program: add `--nproc N`, with a GPU for each of N ranks"] if lacks else []
