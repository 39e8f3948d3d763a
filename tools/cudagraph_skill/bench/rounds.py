"""Measure workloads in rounds: each way in a process that is timed and in another one that is profiled, by turns."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.bench import record
from cudagraph_skill.bench.record import Bench, Result, Row
from cudagraph_skill.bench.ways import COMPILED, of_workload
from cudagraph_skill.capture import neighbours
from cudagraph_skill.capture import request as requests
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.capture.host import Ended
    from cudagraph_skill.capture.session import Guests, Listener

_RUNNER = "cudagraph_skill.bench.guest.measure"


class Plan(NamedTuple):
    """What to measure: workloads, rounds, the interpreter, seconds of one process, a folder for traces ("": none)."""

    workloads: Sequence[str]
    rounds: int
    python: str
    deadline: float
    traces: str = ""

    @property
    def command(self) -> str:
        """Return the command that measures the same."""
        return f"skill bench{''.join(f' --workload {name}' for name in self.workloads)} --rounds {self.rounds}"


def measured(plan: Plan, guests: Guests, listener: Listener) -> Bench | None:
    """Measure all workloads of a plan; None after a cancel.

    Raises:
        SkillError: the machine lacks something.
    """
    start = time.monotonic()
    rounds, beside = _Rounds(plan, guests, listener), neighbours.utilization()
    seen = rounds.answer("look", "", "", "looking at the GPU")
    is_there = "error" not in seen and isinstance(seen.get("machine"), dict)
    results = [rounds.of(workload) for workload in plan.workloads] if is_there else []
    if rounds.cancelled:
        return None
    if not is_there:
        raise SkillError(str(seen.get("error", _UNREADABLE)), 3)
    date, took, beside = time.strftime("%Y-%m-%d"), round(time.monotonic() - start, 1), beside or str(seen.get("beside", ""))
    return Bench(seen["machine"], date, plan.command, plan.rounds, took, beside, results)


class _Rounds:
    """Starts the processes, one at a time."""

    def __init__(self, plan: Plan, guests: Guests, listener: Listener) -> None:
        self._plan, self._guests, self._listener = plan, guests, listener
        self.cancelled = False
        self._request = requests.Request("", plan.python, str(Path.cwd()))

    def of(self, workload: str) -> Result:
        """Measure one workload."""
        rows = {way.name: Row(way.name) for way in of_workload(workload)}
        found = self.answer("compile", workload, COMPILED, f"{workload}: compiling")
        if "error" in found:
            rows[COMPILED] = Row(COMPILED, why=found["error"])
        names = list(rows)
        for number in range(self._plan.rounds):
            turned = names[number % len(names) :] + names[: number % len(names)]
            rows |= {name: self._once_more(rows[name], workload, number) for name in turned}
        return Result(workload, list(rows.values()))

    def _once_more(self, row: Row, workload: str, number: int) -> Row:
        """Time a way, then profile it in another process; one that failed is not tried again."""
        where = f"{workload}, round {number + 1} of {self._plan.rounds}"
        for task, parsed in (("time", record.timed), ("profile", record.profiled)):
            if row.why or self.cancelled:
                break
            doing = f"{where}: {'timing' if task == 'time' else 'profiling'} {row.way}"
            trace = self._trace(workload, row.way) if task == "profile" and number == 0 else ""
            found = self.answer(task, workload, row.way, doing, trace)
            try:
                row = replace(row, why=found["error"]) if "error" in found else _with(row, parsed(found))
            except (KeyError, TypeError, ValueError):
                row = replace(row, why=_UNREADABLE)
        return row

    def _trace(self, workload: str, way: str) -> str:
        return str(Path(self._plan.traces, trace_name(workload, way)).absolute()) if self._plan.traces else ""

    def answer(self, task: str, workload: str, way: str, doing: str, trace: str = "") -> dict[str, Any]:
        """Run one task in a process of its own; return what it found, or a dict with the `error` in a sentence."""
        if self.cancelled:
            return {"error": "cancelled"}
        imports = requests.COMPILER if way == COMPILED else []
        given = {"task": task, "workload": workload, "way": way, "trace": trace, "imports": imports, "file": ""}
        guest = self._guests.guest(self._request, self._listener)
        self._listener.say(doing)
        try:
            ended = guest.ask({"runner": _RUNNER, **given}, self._plan.deadline, cancelled=self._listener.cancelled)
        finally:
            self._listener.say("")
        self.cancelled = ended.ended.get("how") == "cancelled"
        return _found(ended, self._plan.deadline)


_UNREADABLE = "its report cannot be read: something else wrote into its pipe; run it again"


def _with(row: Row, part: record.Timed | record.Profiled) -> Row:
    if isinstance(part, record.Timed):
        return replace(row, timed=[*row.timed, part])
    return replace(row, profiled=[*row.profiled, part])


def trace_name(workload: str, way: str) -> str:
    """Return the name of the file with the trace of a way."""
    return f"{workload}-{way.replace(' ', '-')}.json.gz"


def _found(ended: Ended, deadline: float) -> dict[str, Any]:
    if ended.result is not None:
        return ended.result
    how = str(ended.ended.get("how", ""))
    if how == "deadline":
        return {"error": f"did not end within {deadline:g} s: give it more with `--deadline`"}
    return {"error": f"its process ended ({how}: {str(ended.ended.get('detail', ''))[:200]})"}
