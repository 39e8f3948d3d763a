"""What `run_check` and `run_bench` do: find what is to run, run it in the user's interpreter, shape the answer.

Imported with the first call: a client that only reads does not wait for it.
"""

from __future__ import annotations

import dataclasses
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from cudagraph_skill import decide
from cudagraph_skill.bench import output as bench_output
from cudagraph_skill.bench import rounds as bench_rounds
from cudagraph_skill.bench.ways import known
from cudagraph_skill.capture import interpreter, map_output, options, output, session
from cudagraph_skill.capture.request import Request, locate
from cudagraph_skill.check import output as findings
from cudagraph_skill.check.input.source import lines_of
from cudagraph_skill.decide import call, call_output
from cudagraph_skill.decide import output as trace_output
from cudagraph_skill.errors import SkillError
from cudagraph_skill.paths import skill_root
from cudagraph_skill.tune import code as tune_code
from cudagraph_skill.tune import output as tune_output
from cudagraph_skill.tune import trials
from cudagraph_skill.verify import card, probes
from cudagraph_skill.verify import output as verify_output
from mcp.server.mcpserver.exceptions import ToolError

from cudagraph_skill_server.capturing import Progress
from cudagraph_skill_server.files import regular
from cudagraph_skill_server.limits import Threads
from cudagraph_skill_server.wording import in_arguments, literal

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cudagraph_skill.bench.record import Bench
    from cudagraph_skill.capture.result import CaptureResult
    from mcp.server.mcpserver import Context

    from cudagraph_skill_server.capturing import Asked, Captures

    Run = Callable[[Sequence[Request], session.Guests, session.Listener], Iterable[CaptureResult]]

_READERS = 2  # of traces at once, which may take gigabytes
_OF_TRACES = ("path", "deadline")  # the other arguments are of a call
_TRACES = (".json", ".gz", ".sqlite")  # ends of the names of traces
_SAMPLE, _TOLD = 12, 4  # programs of a claim that is run again; lines about one

# Fields of a measurement; those of a check are more.
_MEASURED = ("verdict", "summary", "map", "decision", "tuning", "machine", "notes", "next")
_DATA: Mapping[str, Callable[[CaptureResult, findings.Reader], dict[str, Any]]] = {
    "check": output.data,
    "map": partial(map_output.data, short=True),
    "decide": call_output.data,
}


class Measurements:
    """The calls of one server, and the guest that stays warm between them."""

    def __init__(self, captures: Captures) -> None:
        self._captures, self._steps = captures, captures.steps
        self._guests, self._threads = session.Guests(), Threads(_READERS)

    def close(self) -> None:
        """Close the guest."""
        self._guests.close()

    async def checked(self, context: Context, asked: Asked, measure: str, step: str) -> dict[str, Any]:
        """Return what came of a call of `run_check`.

        Raises:
            ToolError: nothing could be run.
        """
        if Path(asked.path).suffix in _TRACES:
            data = await self._decided_by_trace(asked, measure, step)
        elif wrong := _misplaced(asked, measure, step):
            raise ToolError(wrong)
        elif measure == "tune":
            data = await self._ways(context, asked)
        else:
            run = {"check": session.examine, "map": session.mapped, "decide": call.measured}[measure]
            result, reader = await self._result(context, asked, run)
            data = _DATA[measure](result, reader)
        if measure != "check":  # what the check of the whole call found is in the summary
            data = {name: value for name, value in data.items() if name in _MEASURED}
        return data

    async def benched(self, context: Context, workload: str, rounds: int, deadline: float) -> dict[str, Any]:
        """Return what came of a call of `run_bench`.

        Raises:
            ToolError: nothing could be measured.
        """
        progress = Progress(context)
        try:
            python = self._captures.python or interpreter.environment_python()
            plan = bench_rounds.Plan([known(workload)], rounds, python, deadline)
            bench = await self._captures.in_turn(context, lambda stop: self._benched(plan, progress, stop))
        except SkillError as error:
            raise ToolError(in_arguments(str(error))) from None
        data = bench_output.data(bench, self._steps.read(bench_output.AFTER))
        return {**data, "results": _medians(data["results"])}

    async def verified(self, context: Context, ids: list[str], deadline: float) -> dict[str, Any]:
        """Return what holds here of claims of the card.

        Raises:
            ToolError: there is no such claim, or the machine lacks something.
        """
        progress = Progress(context)

        def run(stop: threading.Event) -> tuple[str, list[probes.Found]]:
            here = probes.machine(interpreter.interpreter(python))
            listener = session.Listener(progress.until(stop), stop.is_set)
            return here.shown, list(probes.verified(claims, probes.Plan(skill_root(), here, _SAMPLE, deadline, listener)))

        try:
            python = self._captures.python or interpreter.environment_python()
            claims = card.chosen(card.claims(skill_root()), ids)
            shown, found = await self._captures.in_turn(context, run)
        except SkillError as error:
            raise ToolError(in_arguments(str(error))) from None
        data = verify_output.found_data(found, shown)
        return {
            "verdict": "holds" if data["ok"] else "differs",
            "results": [_row(row) for row in data["claims"]],
            "says": [verify_output.summary(found, shown)],
            "machine": {"gpu": shown},
            "next": self._steps.read("card.yaml"),
        }

    async def _ways(self, context: Context, asked: Asked) -> dict[str, Any]:
        """Return the ways of a call, their times, and the code of the fastest."""
        progress, reader = Progress(context), findings.Reader(self._steps, lines_of)
        try:
            request, tuning = await self._captures.in_turn(context, lambda stop: self._tuned(asked, progress, stop))
            proposal = tune_code.proposed(request, tuning)
        except SkillError as error:
            raise ToolError(in_arguments(str(error))) from None
        tuning = dataclasses.replace(tuning, notes=[*tuning.notes, *filter(None, [proposal.said])])
        data = tune_output.data(tuning, reader, proposal.code)
        if data["tuning"] is not None:
            data["tuning"]["ways"] = [{**way, "rounds": len(way["rounds"])} for way in data["tuning"]["ways"]]
        return data

    def _benched(self, plan: bench_rounds.Plan, say: Progress, stop: threading.Event) -> Bench:
        bench = bench_rounds.measured(plan, self._guests, session.Listener(say.until(stop), stop.is_set))
        if bench is None:
            raise SkillError("the measurement was cancelled")
        return bench

    async def _decided_by_trace(self, asked: Asked, measure: str, step: str) -> dict[str, Any]:
        """Return the decision from a trace; it takes no argument of a call."""
        given = next((name for name, value in asked._asdict().items() if name not in _OF_TRACES and value is not None), "")
        if given or measure != "decide":
            wrong = f"leave out {given}" if given else 'give measure="decide"'
            raise ToolError(f"path={literal(asked.path)} is read as a trace, and nothing is measured: {wrong}")
        try:
            data: dict[str, Any] = await self._threads.run(lambda: self._of_trace(asked.path, step), asked.deadline)
        except SkillError as error:
            raise ToolError(in_arguments(str(error))) from None
        return data

    def _of_trace(self, path: str, step: str) -> dict[str, Any]:
        """Return the decision from a trace in an allowed folder.

        Raises:
            SkillError: it lies elsewhere, is not there, or is no trace.
        """
        place = next((each for each in self._captures.places(path) if Path(each).exists()), None)
        if place is None:
            raise SkillError(f"{path}: there is no such file in {', '.join(self._captures.allowed)}")
        if self._captures.folder_of(place) is None:
            raise SkillError(f"{path} may not be read: this server reads in {', '.join(self._captures.allowed)}")
        judged = decide.decide(decide.measured(decide.read(Path(regular(place))), step))
        decision = trace_output.data(judged, self._steps)
        decision["steps"] = _medians(decision["steps"])
        about = {name: decision.pop(name) for name in ("verdict", "summary", "notes", "next")}
        return {**about, "decision": decision}

    async def _result(self, context: Context, asked: Asked, run: Run) -> tuple[CaptureResult, findings.Reader]:
        """Return the result of a call, in words of the tools."""
        progress = Progress(context)
        try:
            result = await self._captures.in_turn(context, lambda stop: self._examined(asked, run, progress, stop))
        except SkillError as error:
            raise ToolError(in_arguments(str(error))) from None
        return _in_words_of_tools(result), findings.Reader(self._steps, lines_of)

    def _examined(self, asked: Asked, run: Run, say: Progress, stop: threading.Event) -> CaptureResult:
        listener = session.Listener(say.until(stop), stop.is_set)
        result = next(iter(run([self._request(asked)], self._guests, listener)), None)
        if result is None:
            raise SkillError("the capture was cancelled")
        return result

    def _tuned(self, asked: Asked, say: Progress, stop: threading.Event) -> tuple[Request, trials.Tuning]:
        request = self._request(asked)
        tuning = trials.tuned(request, self._guests, session.Listener(say.until(stop), stop.is_set))
        if tuning is None:
            raise SkillError("the trials were cancelled")
        return request, dataclasses.replace(tuning, checked=_in_words_of_tools(tuning.checked))

    def _request(self, asked: Asked) -> Request:
        """Return what to capture.

        Raises:
            SkillError: the arguments do not go together, or the file may not be run.
        """
        target, folder = self._place(f"{asked.path}:{asked.function}" if asked.function else asked.path)
        request = Request(
            target,
            self._captures.python or interpreter.environment_python(),
            folder,
            inputs=asked.inputs or "",
            shapes=tuple(asked.shapes or ()),
            warmup=asked.warmup,
            deadline=asked.deadline,
            memory=self._captures.memory,
        )
        if asked.program is None and asked.nproc is None and asked.skip is None:
            return request
        given = next((name for name in ("inputs", "shapes") if getattr(asked, name)), "")
        if given:
            raise SkillError(f"{given} makes arguments, and a program passes its own: leave it out")
        path, _, name = locate(target)
        if not name:
            raise SkillError("which call of the program is to be captured? name it with function")
        command = options.Command("", (), (os.path.realpath(path), *(asked.program or ())))
        launch = options.launched(command, asked.nproc)
        return request._replace(target=name, program=command.program, skip=asked.skip, launch=launch)

    def _place(self, target: str) -> tuple[str, str]:
        """Return the target and the allowed folder that it lies in.

        A relative path counts from here, else from an allowed folder.

        Raises:
            SkillError: it is not there, or lies elsewhere.
        """
        place = next((candidate for candidate in self._captures.places(target) if _there(candidate)), target)
        file = locate(place)[0]
        folder = self._captures.folder_of(file) if file else None
        if folder is None:
            allowed = ", ".join(self._captures.allowed)
            raise SkillError(
                f"{target} may not be run: this server runs code in {allowed} (`skill serve --allow FOLDER` adds one)"
            )
        regular(file)
        return place, folder


def _row(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a claim is told: the first lines of what differs and of what was not run."""
    counts = {name: claim[name] for name in ("id", "state", *("ran", "programs") * bool(claim["ran"]))}
    return counts | {name: claim[name][:_TOLD] for name in ("wrong", "not_run") if claim["ran"]}


def _misplaced(asked: Asked, measure: str, step: str) -> str:
    """Return what does not go with a measurement of a call, "" where all does."""
    if step:
        return f"step={literal(step)} is of a trace, and path={literal(asked.path)} is none: leave it out"
    if asked.nproc is not None and measure != "check":
        return f'nproc={asked.nproc} is for measure="check": leave it out'
    return ""


def _medians(value: Any) -> Any:
    """Return the same with the median in place of each list of measured seconds."""
    if isinstance(value, dict):
        return {name: _medians(each) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    return median(value) if value and all(isinstance(each, float) for each in value) else [_medians(each) for each in value]


def _in_words_of_tools(result: CaptureResult) -> CaptureResult:
    """Return the result with the arguments of tools in place of the command's options."""
    if result.map is not None:
        regions = [region._replace(said=in_arguments(region.said)) for region in result.map.regions]
        result = result._replace(map=dataclasses.replace(result.map, regions=regions))
    return result._replace(said=in_arguments(result.said), notes=[in_arguments(note) for note in result.notes])


def _there(target: str) -> bool:
    with suppress(SkillError):
        return bool(locate(target)[0])
    return False
