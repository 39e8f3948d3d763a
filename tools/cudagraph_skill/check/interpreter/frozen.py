"""Find Python values that a script changes between a capture and a replay, and that GPU work of the capture depends on.

A capture notes what it found (`memory.Memory.found`). Each replay compares that with what is there now. Where something differs, the
capture is read once more at the end, with a mark on it, as on any value that changes from call to call.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.check.interpreter import syntax
from cudagraph_skill.check.interpreter.reports import Since
from cudagraph_skill.check.interpreter.values import Host, Scope, Tensor, Value, is_none

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.frames import Frame
    from cudagraph_skill.check.interpreter.machine import Machine
    from cudagraph_skill.check.interpreter.memory import Found
    from cudagraph_skill.check.interpreter.reports import Slot

_STEPS = 40_000  # of one reading
_HAZARDS = {"CG102", "CG103", "CG110"}
_MODES = {"training"}  # what a module was captured in is meant to stay: CG114 and CG309 are about it


class _Capture(NamedTuple):
    """A capture that may be read once more."""

    graph: Value | None
    statement: ast.AST  # that captures
    read: Callable[[], object]
    found: dict[Slot, Found]
    frames: list[Frame]  # the calls in which it was made
    names: list[dict[Any, Value]]  # what the names of each held
    since: dict[Slot, Since]


class Frozen:
    """The captures of a script, with what became of the Python values that they found."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.captures: list[_Capture] = []
        # A later graph may be the one for a later value.
        self._latest: dict[int, _Capture] = {}  # by the id of the statement
        self._readers: dict[Slot, _Capture] = {}  # by what they found
        self._settled: set[tuple[int, object]] = set()  # for which a statement makes a graph for each value

    def remember(
        self, graph: Value | None, statement: ast.AST, read: Callable[[], object], names: dict[Any, Value] | None = None
    ) -> None:
        """Note a capture; `names` are those that the innermost call had before it, where it runs in that call."""
        machine = self.machine
        frames = list(machine.frames)
        held = [dict(frame.scope.slots) for frame in frames]
        held[-1:] = held[-1:] if names is None else [names]
        found = {slot: item for slot, item in machine.found.items() if self._is_from_before(slot, item, held[-1])}
        older = self._latest.get(id(statement))
        before = {_place(item): item.value.sym for item in older.found.values()} if older is not None else {}
        places = {_place(item): item.value.sym for item in found.values()}
        self._settled |= {(id(statement), place) for place in before.keys() & places.keys() if before[place] != places[place]}
        capture = _Capture(graph, statement, read, found, frames, held, {})
        self.captures.append(capture)
        self._latest[id(statement)] = capture
        self._readers |= dict.fromkeys(found, capture)

    def _is_from_before(self, slot: Slot, item: Found, names: dict[Any, Value]) -> bool:
        """Tell whether the program has put a value there: neither the capture, nor a call before it (CG101)."""
        machine = self.machine
        if any(write.inside for write in machine.writes.get(slot, ())):
            return False
        own = item.holder is machine.frame.scope and item.value is names.get(item.key)
        return own or item.holder.made < machine.round

    def compare(self, graph: Value) -> None:
        """Note what differs at this replay from what the capture found."""
        for capture in self._latest.values():
            if capture.graph is graph:
                for slot in capture.found.keys() & self.machine.bound_at.keys():
                    self._compare(capture, slot, capture.found[slot])
                self._compare_arguments(capture)

    def _is_latest(self, capture: _Capture, slot: Slot) -> bool:
        """Tell whether no other graph is there for a later value of this slot."""
        return self._readers[slot] is capture and (id(capture.statement), _place(capture.found[slot])) not in self._settled

    def _compare(self, capture: _Capture, slot: Slot, item: Found) -> None:
        now = item.holder.slots.get(item.key)
        if now is not None and item.key not in _MODES and _differs(item.value, now) and self._is_latest(capture, slot):
            capture.since.setdefault(slot, Since(item.value, now, self.machine.bound_at[slot], "CG102"))

    def _compare_arguments(self, capture: _Capture) -> None:
        """Look at calls of the function that captured: it may get another number than at its capture, and only replay."""
        machine = self.machine
        for frame, names in zip(capture.frames, capture.names, strict=True):
            for call in machine.frames:
                if frame.node is None or call.node is not frame.node or call.scope is frame.scope:
                    continue
                for name, now in call.scope.slots.items():
                    # One that it asks about may have come here only because it is the same.
                    if (isinstance(now, Host) and now.known) or name not in _asked_about(call.node):
                        self._compare_argument(capture, names.get(name), now)

    def _compare_argument(self, capture: _Capture, then: Value | None, now: Value) -> None:
        if not isinstance(then, Host) or not _differs(then, now):
            return
        for slot, item in capture.found.items():
            if item.value is then and isinstance(item.holder, Scope) and self._is_latest(capture, slot):
                capture.since.setdefault(slot, Since(then, now, self.machine.site(capture.statement), "CG103"))

    def report(self) -> None:
        """Read captures once more of which values have changed, and report those that GPU work depends on."""
        for capture in self.captures:
            if capture.since:
                self._read(capture)

    def _read(self, capture: _Capture) -> None:
        machine = self.machine
        findings, mark = dict(machine.findings), len(machine.journal)
        scope = capture.frames[-1].scope
        names = dict(scope.slots)
        steps, budget = machine.steps, machine.budget
        machine.budget = steps + _STEPS
        machine.frames = list(capture.frames)
        machine.begin_round(report=True)
        machine.since, machine.sunk = capture.since, machine.sunk | capture.since.keys()
        machine.inside = True
        try:
            scope.slots.clear()
            scope.slots.update(capture.names[-1])
            capture.read()
            machine.finish_round(Value())
        finally:
            machine.since, machine.inside, machine.reporting = {}, False, False
            machine.undo(mark)
            scope.slots.clear()
            scope.slots.update(names)
            machine.frames = []
            machine.steps, machine.budget = steps, budget
            new = {key: finding for key, finding in machine.findings.items() if finding.id in _HAZARDS}
            machine.findings = new | findings
            capture.since.clear()


def _place(item: Found) -> object:
    """Return what tells a slot from others also where each call has a scope of its own."""
    return item.key if isinstance(item.holder, Scope) else (id(item.holder), item.key)


def _asked_about(function: ast.AST) -> frozenset[str]:
    """Return the names that a function compares with something."""
    return frozenset().union(*(syntax.names(node) for node in syntax.nodes(function) if isinstance(node, ast.Compare)))


def _differs(then: Host, now: Value) -> bool:
    """Tell whether a Python value was changed: a size is fixed by the shapes of the capture, whatever its name holds later."""
    if isinstance(now, Host):
        return now.kind != "extent" and now.sym != then.sym
    return not is_none(then) and (isinstance(now, Tensor) or type(now) is Value)
