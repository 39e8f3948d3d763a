"""Runs a user's code on what is known of its values, without running it.

Statements and expressions are followed as Python would: into helpers, methods, properties, closures, decorators and modules of
the project. A branch that is decided by known values is taken alone; otherwise both are, and what they wrote is joined. The
region is run several times, as a warm-up and a capture would: what a slot holds at the start of the last two rounds shows which
host values change from call to call, and which tensors were rebound instead of copied into.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.check.findings import Edit, Finding
from cudagraph_skill.check.interpreter import expressions
from cudagraph_skill.check.interpreter.torch_state import State
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Array,
    Bound,
    Choice,
    Class,
    External,
    Function,
    Holder,
    Host,
    Instance,
    Mapping,
    Method,
    Native,
    Object,
    Origin,
    Origins,
    Partial,
    Scope,
    Sequence,
    Tensor,
    Value,
    const,
    fingerprint,
    join,
    joined,
    mix,
    origins_of,
    outline,
    quoted,
    tensors_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cudagraph_skill.check.input.modules import Module, Project
    from cudagraph_skill.check.interpreter.library import Library

NEXT, CONTINUE, BREAK, RETURN, RAISE = range(5)
_DEPTH, _TURNS, _SAME = 36, 12, 2  # calls within each other, turns of a loop, calls of one function within itself
_DECORATING = 2_000  # steps that a decorator may take
_LOADING = 50_000  # steps that the top level of one module may take
_REPEATING = 10_000  # steps that a loop may take outside of a capture to do the same again and again
_WARM = 5  # turns that it takes all the same: calls before a lazy capture, the capture, a replay

Slot = tuple[int, Any]


class Exhausted(Exception):  # noqa: N818 - a signal, not an error
    """The code is larger than the budget; its argument is whether captured code was being read."""


class Frame:
    """One call that is being followed."""

    __slots__ = ("call", "catch", "cls", "function", "given", "module", "node", "on_yield", "receiver", "returned", "scope")

    def __init__(self, module: Module, scope: Scope, function: str, call: ast.AST | None = None) -> None:
        self.module = module
        self.scope = scope
        self.function = function
        self.call = call
        self.returned: list[Value] = []
        self.on_yield: Callable[[Value], int] | None = None
        self.cls: Class | None = None
        self.receiver: Value | None = None
        self.node: ast.AST | None = None  # of the function, with what it was called
        self.given: list[Value] = []
        self.catch = False  # inside a try that catches


class Write(NamedTuple):
    """A write to a slot that outlives the call: in which round, where, and whether captured code did it."""

    round: int
    path: str
    line: int
    column: int
    inside: bool
    via: tuple[str, ...]


class Change(NamedTuple):
    """A slot with the holder that it belongs to."""

    holder: Holder
    key: Any


class Machine:
    """The state of one run: frames, rounds, what was written and used, and the findings of the round that reports."""

    def __init__(self, project: Project, library: Library, budget: int = 200_000) -> None:
        self.project = project
        self.library = library
        self.budget = budget
        self.steps = 0
        self.round = 0
        self.inside = False  # in captured code, not in what runs between calls
        self.reporting = False
        self.quiet = 0  # in code that this capture would not reach
        self.findings: dict[tuple[str, int, str], Finding] = {}
        self.frames: list[Frame] = []
        self.journal: list[tuple[Any, Any, Any]] = []
        self.left: Origins = NONE  # what decided that the last statement left its block
        self.control: list[tuple[Origins, ast.AST | None, int]] = []  # what decides that this code runs, where, how quietly
        self.writes: dict[Slot, list[Write]] = {}
        self.dirty: dict[Slot, Change] = {}
        self.old: dict[Slot, Value | None] = {}  # value of a slot before its first write in this round
        self.starts: list[dict[Slot, tuple[object, Value | None]]] = []
        self.used: set[int] = set()  # storages that GPU work of this round reads
        self.read_slots: dict[Slot, Change] = {}
        self.read_at: dict[Slot, list[tuple[str, int, int]]] = {}
        self.set_inside: set[Slot] = set()  # slots that captured code of this round has written
        self.mutated: set[int] = set()  # CPU memory that captured code changes in place, at every call
        self.region_reads: dict[Slot, tuple[Holder, Any, frozenset[int]]] = {}  # GPU tensors that the region found in a slot
        self.emptied: set[Slot] = set()  # containers that this round has cleared before looking into them
        self.sunk: set[Slot] = set()
        self.updated: set[int] = set()  # storages that this round writes in place
        self.born: set[int] = set()  # storages made by the captured round
        self.created: dict[ast.AST, list[Function]] = {}
        self.instances: dict[ast.AST, list[Instance]] = {}
        self.observed: dict[ast.AST, tuple[list[Value], dict[str, Value]]] = {}
        self.gpu_calls = 0
        self.bound_at: dict[Slot, tuple[str, int, int]] = {}  # where a script last bound a slot to a tensor
        self.fresh_state: dict[Slot, tuple[frozenset[int], tuple[str, int, int]]] = {}  # tensors put where nothing was before
        self.firsts: dict[Slot, tuple[frozenset[int], tuple[str, int, int]]] = {}
        self.copying = False  # the statement gives one name's value to another
        self.binding: Callable[[Slot, Value, ast.AST], None] | None = None
        self.torch = State()
        self.reading: Callable[[Slot, Value], Value] | None = None  # what a script reads after its capture
        self.leaving: Callable[[Frame], None] | None = None  # a call ends
        self.region_hook: Callable[..., object] | None = None
        self.varying: tuple[ast.AST, frozenset[str]] | None = None  # arguments of the captured function that differ each time
        self.named = False  # the outermost call is the captured function itself
        self.hurried = False  # a loop was left because it took long, before it had nothing new to show
        self.outline = False  # the top level of a module of the project is read, not that of the file itself
        self.summaries: dict[tuple[ast.AST, int], Value] | None = (
            None  # of functions, where each is followed but once in a round
        )

    # Findings ---------------------------------------------------------------------------------------------------------

    def report(self, hazard: str, node: ast.AST, message: str, edit: Edit | None = None) -> None:
        """Add a finding at `node`, unless this round does not report."""
        if not self.reporting or self.quiet or not self.inside:
            return
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        self.add(hazard, self.frames[-1].module.path, line, column, message, self.via(), edit)

    def add(
        self, hazard: str, path: str, line: int, column: int, message: str, via: tuple[str, ...], edit: Edit | None = None
    ) -> None:
        """Add a finding, the first for its line and hazard."""
        key = (path, line, hazard)
        if hazard == "CG108" and (path, line, "CG204") in self.findings:
            return
        if key not in self.findings:
            self.findings[key] = Finding(path, line, column, hazard, message, via, edit)

    def report_at(self, hazard: str, made: Object, message: str, edit: Edit | None = None) -> None:
        """Add a finding where an object was made: that is where its options are to be changed."""
        if self.reporting and not self.quiet and self.inside and made.site is not None:
            self.add(hazard, *made.site, message, (), edit)

    def site(self, node: ast.AST) -> tuple[str, int, int]:
        """Path, line and column of a piece of code that is being followed."""
        path = self.frames[-1].module.path if self.frames else self.project.main.path
        return path, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1

    def via(self) -> tuple[str, ...]:
        """The calls that lead here, outermost first."""
        steps = []
        for caller, callee in zip(self.frames, self.frames[1:], strict=False):
            if callee.call is not None and callee.function != "<module>" and not (self.named and caller is self.frames[0]):
                steps.append(f"{caller.module.path}:{getattr(callee.call, 'lineno', 0)} in {caller.function}")
        return tuple(steps[-6:])

    def origin(self, hazard: str, node: ast.AST, message: str, slot: Slot | None = None) -> Origins:
        """A mark for a value that changes at every call, set at `node`; nothing outside captured code."""
        if not self.inside or not self.frames:
            return NONE
        path = self.frames[-1].module.path
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        return frozenset((Origin(hazard, path, line, column, message, self.via(), slot),))

    def sink(self, *values: Value, node: ast.AST | None = None) -> None:
        """GPU work at `node` depends on these: report what makes them change."""
        found = origins_of(values)
        if found:
            self.emit(found, node)
        for origins, where, quiet in self.control:
            if not quiet:
                self.emit(origins, where, decided=True)

    def emit(self, origins: Origins, node: ast.AST | None = None, *, decided: bool = False) -> None:
        """Report the places that make a frozen value change; an argument, where it is used."""
        if not self.reporting or (self.quiet and not decided):
            return
        for each in sorted(origins, key=lambda one: (one.path, one.line, one.column, one.id, one.message)):
            if each.id in {"CG706", "CG115"}:
                continue  # said where a collective, or a change of state, depends on it
            if each.id == "CG103" and node is not None:
                self.add(each.id, *self.site(node), each.message, self.via())
                continue
            self.add(each.id, each.path, each.line, each.column, each.message, each.via)
            if each.slot is None or each.slot in self.sunk:
                continue
            self.sunk.add(each.slot)
            for write in self.writes.get(each.slot, ()):
                if write.inside:
                    message = "changes here at every call, but a replay repeats the value that it had at capture"
                    self.add(each.id, write.path, write.line, write.column, message, write.via)

    def gpu_work(self, node: ast.AST, *values: Value) -> None:
        """Something is launched on the GPU with these arguments."""
        self.gpu_calls += 1
        self.library.note_library(self, node)
        if not self.inside:
            return
        for value in values:
            self.use(value)
            if isinstance(value, Sequence):
                expressions.held(self, value, node)
        self.sink(*values, node=node)
        self.library.on_launch(self)

    def guarded_change(self) -> None:
        """GPU state is changed here: not so in a capture, if a test for captures keeps it out."""
        for origins, where, _ in self.control:
            if self.reporting and _only_guard(origins) and where is not None:
                message = f"{quoted(where)} keeps a change of GPU state out of the capture: no replay makes it"
                self.add("CG115", *self.site(where), message, self.via())

    def use(self, value: Value) -> None:
        """The contents of these tensors are read."""
        for tensor in tensors_in(value):
            self.used |= tensor.storages

    # Rounds -----------------------------------------------------------------------------------------------------------

    def begin_round(self, *, report: bool) -> None:
        """Start a call of the captured code; note what every slot holds that calls write to."""
        self.round += 1
        self.starts.append({slot: self._now(change) for slot, change in self.dirty.items()})
        self.used, self.born, self.updated = set(), set(), set()
        self.old = {}
        self.read_slots, self.read_at, self.emptied, self.set_inside, self.region_reads = {}, {}, set(), set(), {}
        self.reporting = report
        self.torch.begin()

    def _now(self, change: Change) -> tuple[object, Value | None]:
        holder, key = change
        if isinstance(holder, Sequence) and key == "items":
            frozen = Sequence(holder.kind, holder.items and list(holder.items), 0, holder.rest)
            return fingerprint(frozen), frozen
        value = holder.slots.get(key)
        return (None if value is None else fingerprint(value)), value

    def changes(self, slot: Slot) -> bool:
        """Whether a slot holds something else at the start of each call."""
        if len(self.starts) < 2 or slot not in self.starts[-1] or slot not in self.starts[-2]:
            return False
        return self.starts[-1][slot][0] != self.starts[-2][slot][0]

    def by_region(self, slot: Slot) -> bool:
        """Whether captured code writes this slot itself."""
        return any(write.inside for write in self.writes.get(slot, ()))

    def finish_round(self, result: Value) -> None:
        """Look back at a call: outputs, streams, and state that was rebound instead of copied into."""
        self.use(result)
        self.sink(*_leaves(result))
        for slot, old in list(self.old.items()):
            self._rebound(slot, old)
        self.library.on_end(self)

    def _rebound(self, slot: Slot, old: Value | None) -> None:
        change = self.dirty[slot]
        if slot in self.emptied:
            return
        start = self.starts[-1][slot][1] if slot in self.starts[-1] else old
        _, now = self._now(change)
        if start is None:
            return
        container = isinstance(change.holder, (Sequence, Mapping))
        before = {storage for tensor in _state_in(start) if tensor.on_gpu for storage in tensor.storages}
        after = (
            {storage for tensor in tensors_in(now) if tensor.on_gpu for storage in tensor.storages}
            if now is not None
            else set()
        )
        read = before & self.used
        if container and read and before == after and _order(start) != _order(now):
            after = after | {0}
        grown = isinstance(change.holder, Sequence) and bool(after - before) and slot in self.read_slots
        if not (
            (read and after - before and (not before <= after or container))
            or (container and (grown or (read and after - before)))
        ):
            self._unread(slot, change)
            return
        last = [write for write in self.writes[slot] if write.inside and write.round == self.round]
        for write in last:
            what = "grows or is replaced" if container else "is bound to a new tensor"
            message = f"{_name_of(change)} {what} here; a replay goes on reading the tensor that was there at capture"
            self.add("CG302" if container else "CG301", write.path, write.line, write.column, message, write.via)
        if container and last:
            for place in self.read_at.get(slot, ()):
                self.add(
                    "CG302", *place, f"reads {_name_of(change)}, of which a replay knows only what was in it at capture", ()
                )

    def _unread(self, slot: Slot, change: Change) -> None:
        """A Python side effect that nothing on the GPU depends on."""
        if slot in self.sunk or not (self.changes(slot) or isinstance(change.holder, Sequence)):
            return
        now = self._now(change)[1]
        if isinstance(now, Tensor) or (isinstance(now, Sequence) and not isinstance(change.holder, Sequence)):
            return
        for write in self.writes[slot]:
            if write.inside and write.round == self.round:
                message = f"{_name_of(change)} changes here at every call of the Python code, and at no replay"
                self.add("CG107", write.path, write.line, write.column, message, write.via)

    # Slots ------------------------------------------------------------------------------------------------------------

    def write(self, holder: Holder, key: Any, value: Value, node: ast.AST) -> None:
        """Put a value into a slot; what outlives the call is remembered."""
        if self.control and isinstance(value, (Host, Array)):
            value = value.marked(frozenset().union(*(each[0] for each in self.control)))
        old = holder.slots.get(key)
        self.journal.append((holder.slots, key, old))
        holder.slots[key] = value
        if not self.inside and isinstance(value, Tensor) and self.torch.script:
            self.bound_at[(id(holder), key)] = self.site(node)
            if self.binding is not None and self.copying:
                self.binding((id(holder), key), value, node)
        if self.round and holder.made < self.round:
            self._remember(holder, key, old, node)

    def write_items(self, sequence: Sequence, items: list[Value] | None, rest: Value | None, node: ast.AST) -> None:
        """Replace what a list holds."""
        old = Sequence(sequence.kind, sequence.items, 0, sequence.rest)
        self.journal.append((sequence, "items", (sequence.items, sequence.rest)))
        if items is not None and len(items) > 64:
            rest = joined(items, self.round)
            items = None
        sequence.items, sequence.rest = items, rest
        if self.round and sequence.made < self.round:
            self._remember(sequence, "items", old, node)

    def _remember(self, holder: Holder, key: Any, old: Value | None, node: ast.AST) -> None:
        slot = (id(holder), key)
        self.dirty[slot] = Change(holder, key)
        self.old.setdefault(slot, old)
        if self.inside:
            self.set_inside.add(slot)
            now = holder.slots.get(key)
            if isinstance(now, Tensor) and now.on_gpu and (old is None or (isinstance(old, Host) and old.value is None)):
                self.fresh_state.setdefault(slot, (now.storages, self.site(node)))
        if self.quiet:
            return
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        path = self.frames[-1].module.path if self.frames else ""
        seen = self.writes.setdefault(slot, [])
        if len(seen) < 40:
            seen.append(Write(self.round, path, line, column, self.inside, self.via()))

    def read(self, holder: Holder, key: Any, value: Value, node: ast.AST) -> Value:
        """What a slot holds, marked where that changes from call to call."""
        if not self.round:
            return value
        slot = (id(holder), key)
        if not self.inside:
            return value if self.reading is None else self.reading(slot, value)
        if isinstance(value, Tensor) and value.on_gpu and self.torch.script:
            self.region_reads[slot] = (holder, key, value.storages)
        if holder.made >= self.round:
            return value
        if isinstance(value, Host) and slot not in self.set_inside:
            value = value.settled()
        if isinstance(value, (Tensor, Array)) and self._memory(value) & self.mutated:
            message = f"{quoted(node)} is CPU memory that changes at every call; the graph keeps what it had at capture"
            return value.marked(self.origin("CG106", node, message))
        if slot not in self.dirty or not self.changes(slot):
            return value
        if (
            slot in self.set_inside
            and not isinstance(holder, Sequence)
            and not any(each.slot == slot for each in value.origins)
        ):
            return value  # this call has set it anew before reading it
        self.read_slots[slot] = Change(holder, key)
        self.read_at.setdefault(slot, []).append(self.site(node))
        return self._changing(slot, value, node)

    def _memory(self, value: Tensor | Array) -> frozenset[int]:
        """What names the CPU memory of a value; nothing for one on the GPU."""
        if isinstance(value, Array):
            return frozenset((id(value),))
        return frozenset() if value.on_gpu else value.storages

    def _changing(self, slot: Slot, value: Value, node: ast.AST) -> Value:
        inside = self.by_region(slot)
        what = quoted(node)
        if isinstance(value, Tensor) and value.on_gpu:
            if not inside and self.reporting:
                self.report(
                    "CG102", node, f"{what} is bound to another tensor between calls; a replay reads the one of the capture"
                )
            return value
        hazard = "CG106" if isinstance(value, (Tensor, Array)) else "CG101" if inside else "CG102"
        message = (
            f"{what} changes at every call; the graph keeps the value that it has at capture"
            if inside
            else f"{what} is set by other code between calls; the graph keeps the value that it has at capture"
        )
        origins = self.origin(hazard, node, message, slot)
        if isinstance(value, (Function, Bound, Instance, Class, Object, External)):
            self.emit(origins)
            return value
        return value.marked(origins)

    def mutate(self, value: Value, node: ast.AST, *causes: Value) -> None:
        """A CPU tensor or numpy array is changed in place."""
        for each in (value, value.base) if isinstance(value, Tensor) and value.base is not None else (value,):
            each.sym = mix("mutated", each.sym, getattr(node, "lineno", 0), *(cause.sym for cause in causes))
            each.origins |= origins_of(causes)
            if self.inside and isinstance(each, Array):
                self.mutated.add(id(each))

    # Forks ------------------------------------------------------------------------------------------------------------

    def _undo(self, mark: int) -> dict[tuple[int, Any], tuple[Any, Any, Any]]:
        """Take back writes; return what they had put where."""
        after: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}
        for place, key, old in reversed(self.journal[mark:]):
            if isinstance(place, Sequence):
                after.setdefault((id(place), key), (place, key, (place.items, place.rest)))
                place.items, place.rest = old
            else:
                after.setdefault((id(place), key), (place, key, place.get(key)))
                if old is None:
                    place.pop(key, None)
                else:
                    place[key] = old
        del self.journal[mark:]
        return after

    def fork(self, first: Callable[[], int], second: Callable[[], int]) -> int:
        """Run both, and go on with what may be so after either."""
        mark = len(self.journal)
        one = first()
        after = self._undo(mark)
        other = second()
        if one != NEXT and other == NEXT:
            return NEXT
        if other != NEXT and one == NEXT:
            self._undo(mark)
            self._redo(after, alone=True)
            return NEXT
        self._redo(after, alone=False)
        return min(one, other) if NEXT in {one, other} else max(CONTINUE, min(one, other))

    def _redo(self, after: dict[tuple[int, Any], tuple[Any, Any, Any]], *, alone: bool) -> None:
        for place, key, value in after.values():
            if isinstance(place, Sequence):
                self.journal.append((place, key, (place.items, place.rest)))
                if alone or place.items is None or value[0] is None or len(place.items) <= len(value[0]):
                    place.items, place.rest = value
                continue
            now = place.get(key)
            self.journal.append((place, key, now))
            if value is None:
                continue
            place[key] = value if alone or now is None else join(now, value, self.round)

    def under(self, origins: Origins, run: Callable[[], int], node: ast.AST | None = None, level: int | None = None) -> int:
        """Run code that is reached only because of values with these origins."""
        if not origins:
            return run()
        self.control.append((origins, node, self.quiet if level is None else level))
        try:
            return run()
        finally:
            self.control.pop()

    def hushed(self, run: Callable[[], int]) -> int:
        """Run code that this capture would not reach: for what it would do, not for its own faults."""
        self.quiet += 1
        try:
            return run()
        finally:
            self.quiet -= 1

    # Statements -------------------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        """The innermost call."""
        return self.frames[-1]

    def block(self, statements: list[ast.stmt]) -> int:
        """Run statements until one leaves the block."""
        for place, statement in enumerate(statements):
            self.left = NONE
            status = self.statement(statement)
            if status != NEXT:
                rest = statements[place + 1 :]
                if _only_guard(self.left) and rest and isinstance(statement, ast.If):
                    self._skipped(self.left, statement, rest)
                return status
        return NEXT

    def _skipped(self, origins: Origins, statement: ast.If, rest: list[ast.stmt]) -> None:
        """Look at what a guard for captures leaves out: GPU work there is missing from the graph."""
        self.left = NONE
        mark = len(self.journal)
        returned = list(self.frame.returned)
        level = self.quiet
        self.hushed(lambda: self.under(origins, lambda: self.block(rest), statement.test, level))
        self._undo(mark)
        self.frame.returned[:] = returned

    def statement(self, node: ast.stmt) -> int:
        """Run one statement; returns how it leaves."""
        self.steps += 1
        if self.steps > self.budget:
            raise Exhausted(self.inside)
        run = _STATEMENTS.get(type(node))
        return run(self, node) if run else NEXT

    def value(self, node: ast.expr | None) -> Value:
        """What an expression is."""
        return const(None) if node is None else expressions.value(self, node)

    def _expression(self, node: ast.Expr) -> int:
        if not isinstance(node.value, ast.Constant):
            self.library.on_dropped(self, self.value(node.value), node.value)
        return NEXT

    def _assign(self, node: ast.Assign) -> int:
        value = self.value(node.value)
        self.copying = isinstance(node.value, ast.Name)
        for target in node.targets:
            self.assign(target, value)
        self.copying = False
        return NEXT

    def _annotated(self, node: ast.AnnAssign) -> int:
        if node.value is not None:
            self.assign(node.target, self.value(node.value))
        return NEXT

    def _augmented(self, node: ast.AugAssign) -> int:
        target = node.target
        if isinstance(target, ast.Subscript):
            expressions.update_item(self, node, target)
            return NEXT
        old = self.value(ast.copy_location(_loaded(target), target))
        new = self.value(node.value)
        result = expressions.in_place(self, node, old, new)
        if result is not old or isinstance(old, (Host, Sequence)):
            self.assign(target, result)
        return NEXT

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a value to a target of an assignment."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value, target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value)
        elif isinstance(target, ast.Attribute):
            expressions.set_attribute(self, target, self.value(target.value), value)
        elif isinstance(target, ast.Subscript):
            expressions.set_item(self, target, value)

    def bind(self, name: str, value: Value, node: ast.AST) -> None:
        """Give a name a value in the scope that it belongs to."""
        scope = self.frame.scope
        self.write(scope.declared.get(name, scope), name, value, node)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        wanted = target.elts
        starred = next((place for place, each in enumerate(wanted) if isinstance(each, ast.Starred)), None)
        items = self.items(value, target, len(wanted) if starred is None else None)
        if starred is not None:
            known = items is not None and len(items) >= len(wanted) - 1
            rest = len(items) - len(wanted) + 1 if items is not None and known else 0
            middle = items[starred : starred + rest] if items is not None and known else None
            spread = Sequence("list", middle, self.round, expressions.item_of(self, value, target))
            before = items[:starred] if items is not None and known else None
            after = items[starred + rest :] if items is not None and known else None
            items = [*before, spread, *after] if before is not None and after is not None else None
        for place, each in enumerate(wanted):
            known_item = items is not None and place < len(items)
            self.assign(each, items[place] if items is not None and known_item else expressions.item_of(self, value, target))

    def items(self, value: Value, node: ast.AST, count: int | None = None) -> list[Value] | None:
        """The items of something that is unpacked or iterated, where they are known one by one."""
        return expressions.items(self, value, node, count)

    def _if(self, node: ast.If) -> int:
        truth, origins = expressions.test(self, node.test)
        if truth is None and not origins and self.inside and self.round > 1 and refills(node):
            return self.block(node.orelse)  # a cache that earlier calls have filled

        def then() -> int:
            return self.block(node.body)

        def otherwise() -> int:
            return self.block(node.orelse)

        return self.decide(truth, origins, then, otherwise, node.test)

    def decide(
        self,
        truth: bool | None,
        origins: Origins,
        then: Callable[[], int],
        otherwise: Callable[[], int],
        node: ast.AST | None = None,
    ) -> int:
        """Go on with the branch that is taken, or with both; a changing value that decides is a frozen branch."""
        if truth is not None and not origins:
            return then() if truth else otherwise()

        level = self.quiet

        def leaving(run: Callable[[], int]) -> Callable[[], int]:
            def ran() -> int:
                status = self.under(origins, run, node, level)
                if status in {RETURN, BREAK, CONTINUE} and origins:
                    self.left = origins
                    if not _only_guard(origins):
                        self.emit(origins, node)
                return status

            return ran

        one, other = leaving(then), leaving(otherwise)
        if truth is None:
            return self.fork(one, other)
        taken, missed = (one, other) if truth else (other, one)
        mark = len(self.journal)
        self.hushed(missed)
        self._undo(mark)
        return taken()

    def _while(self, node: ast.While) -> int:
        for turn in range(_TURNS):
            truth, origins = expressions.test(self, node.test)
            if truth is False and not origins:
                return self.block(node.orelse)
            if truth is False:
                break
            status = self.under(origins, lambda: self.block(node.body), node.test)
            if status == BREAK:
                return NEXT
            if status in {RETURN, RAISE}:
                return NEXT if truth is None else status
            if truth is None and turn:
                break
        return NEXT

    def _for(self, node: ast.For | ast.AsyncFor) -> int:
        source = self.value(node.iter)
        status, before = NEXT, self.steps
        same = not self.inside and _repeats(node)
        done: list[object] = []

        def turn(item: Value) -> int:
            nonlocal status
            self.assign(node.target, item)
            mark = len(self.journal)
            status = self.block(node.body)
            return BREAK if status == NEXT and same and self._enough(done, mark, before) else status

        broke = self.iterate(source, node.iter, turn)
        if status == RETURN or (broke and status == RAISE):
            return status if broke else NEXT
        return self.block(node.orelse) if status != BREAK else NEXT

    def _enough(self, done: list[object], mark: int, before: int) -> bool:
        """Whether a loop that repeats itself has written the same in its last two turns, or takes too long."""
        written = [
            (key, outline(place if isinstance(place, Sequence) else place.get(key))) for place, key, _ in self.journal[mark:]
        ]
        done.append((self.torch.ddp_calls, written))
        if done[-2:-1] == done[-1:]:
            return True
        long = len(done) >= _WARM and self.steps - before > _REPEATING
        self.hurried = self.hurried or long
        return long

    def iterate(self, source: Value, node: ast.AST, turn: Callable[[Value], int]) -> bool:
        """Run `turn` for the items of `source`; whether it ended early for certain."""
        if isinstance(source, Object) and source.name == "generator":
            return self._generate(source, turn)
        items = self.items(source, node)
        known = items is not None
        origins = source.origins
        if items is None:
            item = expressions.item_of(self, source, node)
            items = [item, item]
        before = self.gpu_calls
        churns = self.inside and expressions.rows(source) and not isinstance(node, ast.Tuple)
        for item in items[:_TURNS]:
            status = self.under(origins, lambda item=item: turn(item), node)  # type: ignore[misc]
            if status in {BREAK, RETURN, RAISE}:
                return known
        if churns and self.gpu_calls - before >= 2:
            self.report("CG504", node, f"this loop launches its kernels anew for each row of {quoted(node)}")
        return False

    def _generate(self, generator: Object, turn: Callable[[Value], int]) -> bool:
        stopped = False

        def yielded(value: Value) -> int:
            nonlocal stopped
            if not stopped:
                stopped = turn(value) in {BREAK, RETURN, RAISE}
            return NEXT

        self.run_generator(generator, yielded)
        return stopped

    def run_generator(self, generator: Object, on_yield: Callable[[Value], int]) -> None:
        """Run the body of a generator function; its frame is left for the consumer's while it has yielded."""
        function = generator.args[0]
        depth = len(self.frames)

        def yielded(value: Value) -> int:
            inner = self.frames[depth:]
            del self.frames[depth:]
            try:
                return on_yield(value)
            finally:
                self.frames[depth:] = inner

        if isinstance(function, Function):
            self._run(function, list(generator.args[1:]), dict(generator.kwargs), None, yielded)

    def _try(self, node: ast.Try) -> int:
        before = self.frame.catch
        catches = bool(node.handlers)
        found = set(self.findings)
        self.frame.catch = before or catches
        status = self.block(node.body)
        self.frame.catch = before
        if catches:
            self._swallowed(node, found)
        if status == RAISE and node.handlers:
            status = NEXT
            for handler in node.handlers:
                status = self.block(handler.body)
        elif status == NEXT:
            status = self.block(node.orelse)
        final = self.block(node.finalbody)
        return final if final != NEXT else status

    def _swallowed(self, node: ast.Try, before: set[tuple[str, int, str]]) -> None:
        for key in set(self.findings) - before:
            if self.library.breaks_capture(key[2]):
                found = self.findings[key]
                message = (
                    f"the except of line {node.handlers[0].lineno} cannot save the capture that this breaks: it stays invalid"
                )
                self.add("CG233", found.path, found.line, found.column, message, found.via)

    def _with(self, node: ast.With | ast.AsyncWith) -> int:
        return self._enter(node, 0)

    def _enter(self, node: ast.With | ast.AsyncWith, place: int) -> int:
        if place == len(node.items):
            return self.block(node.body)
        item = node.items[place]
        context = self.value(item.context_expr)

        def body(value: Value) -> int:
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
            return self._enter(node, place + 1)

        return expressions.enter(self, context, item.context_expr, body, node)

    def _return(self, node: ast.Return) -> int:
        value = self.value(node.value)
        self.frame.returned.append(value)
        return RETURN

    def _raise(self, node: ast.Raise) -> int:
        self.hushed(lambda: self._expression_of(node.exc))
        return RAISE

    def _expression_of(self, node: ast.expr | None) -> int:
        self.value(node)
        return NEXT

    def _assert(self, node: ast.Assert) -> int:
        truth, _ = expressions.test(self, node.test)
        return RAISE if truth is False and not self.quiet and isinstance(node.test, ast.Constant) else NEXT

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        self.bind(node.name, self.function(node), node)
        return NEXT

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
        """The value of a `def`: the function, as its decorators leave it."""
        function = Function(node, self.frame.scope.visible(), self.frame.module, node.name)
        function.defaults = self.defaults(node.args)
        self.created.setdefault(node, []).append(function)
        value: Value = function
        for decorator in reversed(node.decorator_list):
            value = self._decorated(decorator, value)
        return value

    def _decorated(self, node: ast.expr, value: Value) -> Value:
        """What a decorator makes of a function, followed into its own module but no further: many only register or document."""
        found = self._outlined(node)
        if isinstance(found, expressions.Later):
            found = found.resolve(self)
        outline, steps = self.outline, self.steps
        self.outline, self.steps = True, max(self.steps, self.budget - _DECORATING)
        try:
            return expressions.decorate(self, found, value, node)
        except Exhausted:
            return value
        finally:
            self.outline, self.steps = outline, steps

    def _outlined(self, node: ast.expr) -> Value:
        """An expression that needs no other module to be read."""
        outline, self.outline = self.outline, True
        try:
            return self.value(node)
        finally:
            self.outline = outline

    def defaults(self, arguments: ast.arguments) -> dict[str, Value]:
        """Default values by name of the argument."""
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = list(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True))
        pairs += [(each, value) for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
        return {argument.arg: self.value(value) for argument, value in pairs}

    def _class(self, node: ast.ClassDef) -> int:
        bases = [self._outlined(base) for base in node.bases if not isinstance(base, ast.Starred)]
        made = Class(node, bases, self.frame.module, self.round)
        scope = Scope(self.round, self.frame.scope, self.frame.scope.global_scope)
        scope.slots = made.slots
        scope.of_class = True
        frame = Frame(self.frame.module, scope, node.name, node)
        self.frames.append(frame)
        try:
            self.block(node.body)
        finally:
            self.frames.pop()
        for value in made.slots.values():
            for function in _functions_of(value):
                function.owner = function.owner or made
        result: Value = made
        for decorator in reversed(node.decorator_list):
            result = self.library.decorate_class(self._outlined(decorator), made)
        self.bind(node.name, result, node)
        return NEXT

    def _import(self, node: ast.Import) -> int:
        for alias in node.names:
            top = alias.name.split(".")[0]
            module = self.project.find(alias.name if alias.asname else top, self.frame.module)
            found: Value = module or External(alias.name if alias.asname else top)
            self.bind(alias.asname or top, found, node)
        return NEXT

    def _import_from(self, node: ast.ImportFrom) -> int:
        module = self.project.find(node.module or "", self.frame.module, node.level)
        for alias in node.names:
            if alias.name == "*":
                self._import_all(module, node)
            elif module is None and not node.level:
                self.bind(alias.asname or alias.name, self.library.named(f"{node.module}.{alias.name}"), node)
            elif module is None:
                self.bind(alias.asname or alias.name, Value(), node)
            else:
                self.bind(alias.asname or alias.name, expressions.Later(module, alias.name), node)
        return NEXT

    def _import_all(self, module: Module | None, node: ast.AST) -> None:
        if module is not None and module is not self.frame.module and not self.outline:
            self.load(module)
            for name, value in list(module.scope.slots.items()):
                self.bind(name, value, node)

    def load(self, module: Module, *, program: bool = False) -> None:
        """Run a module once, as its import does; as the program itself it may take all steps that there are."""
        if module.started:
            return
        module.started = True
        tree = module.tree
        frame = Frame(module, module.scope, "<module>", tree)
        module.scope.slots["__name__"] = const("__main__" if module is self.project.main else module.name)
        inside, reporting = self.inside, self.reporting
        frames, control, turn = self.frames, self.control, self.round
        outline, steps = self.outline, self.steps
        self.inside = self.reporting = False
        self.frames, self.control, self.round = [frame], [], 0
        self.outline = module is not self.project.main
        self.steps = steps if program else max(0, self.budget - _LOADING)
        try:
            self.block(tree.body)
        except Exhausted:
            if frames:
                pass  # what was read of the module stays
            else:
                raise
        finally:
            self.outline, self.steps = outline, self.steps if program else steps
            self.frames, self.control, self.round = frames, control, turn
            self.inside, self.reporting = inside, reporting

    def _global(self, node: ast.Global) -> int:
        for name in node.names:
            self.frame.scope.declared[name] = self.frame.scope.global_scope
        return NEXT

    def _nonlocal(self, node: ast.Nonlocal) -> int:
        for name in node.names:
            scope = self.frame.scope.outer
            while scope is not None and name not in scope.slots:
                scope = scope.outer
            if scope is not None:
                self.frame.scope.declared[name] = scope.declared.get(name, scope)
        return NEXT

    def _delete(self, node: ast.Delete) -> int:
        for target in node.targets:
            if isinstance(target, ast.Name):
                slots = self.frame.scope.slots
                self.journal.append((slots, target.id, slots.get(target.id)))
                slots.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                expressions.delete_item(self, target)
        return NEXT

    def _match(self, node: ast.Match) -> int:
        subject = self.value(node.subject)
        if (
            isinstance(subject, Tensor)
            and subject.on_gpu
            and any(isinstance(case.pattern, ast.MatchValue) for case in node.cases)
        ):
            self.report("CG202", node.subject, f"matching {quoted(node.subject)} against values reads a GPU tensor on the host")
        return self._cases(subject, node.cases)

    def _cases(self, subject: Value, cases: list[ast.match_case]) -> int:
        if not cases:
            return NEXT
        case, rest = cases[0], cases[1:]
        truth = expressions.matches(self, subject, case.pattern)
        if case.guard is not None and truth is not False:
            guarded, _ = expressions.test(self, case.guard)
            truth = guarded if truth else None if guarded is not False else False
        origins = subject.origins if isinstance(subject, Host) else NONE
        return self.decide(truth, origins, lambda: self.block(case.body), lambda: self._cases(subject, rest))

    def _leave(self, node: ast.stmt) -> int:
        return BREAK if isinstance(node, ast.Break) else CONTINUE

    # Calls ------------------------------------------------------------------------------------------------------------

    def call(self, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """What calling something returns."""
        if isinstance(function, expressions.Later):
            function = function.resolve(self)
            if isinstance(function, expressions.Later):
                return Value()
        run = _CALLS.get(type(function))
        if run is not None:
            return run(self, function, args, kwargs, node)
        parts = [*args, *kwargs.values()]
        if self.inside:
            for each in parts:
                self.use(each)
        if function.origins and any(isinstance(each, Tensor) for each in parts):
            self.emit(function.origins, node)
            return Value(mix("call", function.sym))
        return Value(mix("call", function.sym, *(each.sym for each in args)), origins_of([function, *parts]))

    def _call_function(
        self, function: Function, args: list[Value], kwargs: dict[str, Value], node: ast.AST, yielded: Any = None
    ) -> Value:
        if not self.inside and not isinstance(function.node, ast.Lambda):
            self.observed[function.node] = (args, kwargs)
        if "contextmanager" in function.marks or self.library.yields(function.node):
            how = "contextmanager" if "contextmanager" in function.marks else "generator"
            return Object(how, [function, *args], kwargs, self.round)
        if function.memo is not None:
            key = (tuple(map(fingerprint, args)), tuple((name, fingerprint(value)) for name, value in kwargs.items()))
            if key not in function.memo:
                function.memo[key] = self._run(function, args, kwargs, node, None)
            return function.memo[key]
        return self._run(function, args, kwargs, node, yielded)

    def _run(
        self,
        function: Function,
        args: list[Value],
        kwargs: dict[str, Value],
        node: ast.AST | None,
        yielded: Callable[[Value], int] | None,
    ) -> Value:
        """Follow a call into a function of the user's."""
        summary = (function.node, self.round)
        if self.summaries is not None and summary in self.summaries and yielded is None:
            return self.summaries[summary]
        result = self._follow(function, args, kwargs, node, yielded)
        if self.summaries is not None:
            self.summaries[summary] = result
        return result

    def _follow(
        self,
        function: Function,
        args: list[Value],
        kwargs: dict[str, Value],
        node: ast.AST | None,
        yielded: Callable[[Value], int] | None,
    ) -> Value:
        if len(self.frames) > _DEPTH or self._recurs(function, [*args, *kwargs.values()], node):
            return Value()
        scope = Scope(self.round, function.scope, function.scope.global_scope)
        frame = Frame(function.module, scope, function.name, node)
        frame.cls = function.owner
        frame.receiver = args[0] if args else None
        frame.node, frame.given = function.node, [*args, *kwargs.values()]
        frame.on_yield = yielded
        self.library.bind_arguments(self, function, args, kwargs, scope)
        if self.varying is not None and self.varying[0] is function.node:
            scope.varying = self.varying[1]
        self.frames.append(frame)
        quiet = "no_grad" in function.marks
        self.torch.no_grad += quiet
        try:
            if isinstance(function.node, ast.Lambda):
                return self.value(function.node.body)
            status = self.block(function.node.body)
            if self.leaving is not None:
                self.leaving(frame)
        finally:
            self.frames.pop()
            self.torch.no_grad -= quiet
        results = frame.returned
        if status == NEXT:
            results = [*results, const(None)]
        return joined(results, self.round) or Value()

    def _recurs(self, function: Function, given: list[Value], node: ast.AST | None) -> bool:
        """Whether a call within itself is followed far enough: from this place, or with arguments of which no more is known."""
        if sum(frame.scope.outer is function.scope and frame.call is node for frame in self.frames) > _SAME:
            return True
        within = [frame.given for frame in self.frames if frame.node is function.node]
        return len(within) >= _SAME and list(map(_known_of, within)).count(_known_of(given)) >= _SAME

    def _call_bound(self, bound: Bound, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        return self.call(bound.function, [bound.receiver, *args], kwargs, node)

    def _call_partial(self, partial: Partial, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        if partial.how:
            return self.library.call_wrapped(self, partial, args, kwargs, node)
        return self.call(partial.function, [*partial.args, *args], {**partial.kwargs, **kwargs}, node)

    def _call_choice(self, choice: Choice, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        self.sink(choice)
        results = []
        for option in choice.options:
            self.quiet += isinstance(option, Object)  # which of several layers it is, is not known
            results.append(self.call(option, args, kwargs, node))
            self.quiet -= isinstance(option, Object)
        return joined(results, self.round) or Value()

    def _call_native(self, native: Native, args: list[Value], kwargs: dict[str, Value], _: ast.AST) -> Value:
        return native.run(args, kwargs)

    def _call_class(self, cls: Class, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        return self.library.instantiate(self, cls, args, kwargs, node)

    def _call_instance(self, instance: Instance, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        found = instance.cls.find("__call__")
        if found:
            return self.call(expressions.bound(self, found[1], instance), args, kwargs, node)
        return self.library.call_module(self, instance, args, kwargs, node)

    def _call_external(self, external: External, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        return self.library.call(self, external.name, args, kwargs, node)

    def _call_method(self, method: Method, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        return self.library.call_method(self, method.receiver, method.name, args, kwargs, node)

    def _call_object(self, made: Object, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        return self.library.call_object(self, made, args, kwargs, node)


def _known_of(given: list[Value]) -> list[object]:
    """What is known of arguments: which objects of the user's, and what kind of other values."""
    return [each if isinstance(each, Instance) else outline(each) for each in given]


def _order(value: Value | None) -> list[frozenset[int]]:
    return [tensor.storages for tensor in tensors_in(value)] if value is not None else []


def _state_in(value: Value) -> list[Tensor]:
    """The tensors that a slot leads to: in containers, and in plain objects such as dataclasses."""
    if isinstance(value, Instance) and not any(name.startswith("torch.nn.") for name in value.cls.libraries()):
        return [tensor for each in value.slots.values() for tensor in tensors_in(each)]
    return tensors_in(value)


def _only_guard(origins: Origins) -> bool:
    """Whether nothing but a test for a running capture decides."""
    return bool(origins) and all(each.id == "CG115" for each in origins)


def _leaves(value: Value) -> Iterator[Value]:
    """The host values that a result holds."""
    if isinstance(value, (Sequence, Mapping)):
        for item in value.each():
            yield from _leaves(item)
    elif not isinstance(value, (Instance, Function)):
        yield value


def _functions_of(value: Value) -> list[Function]:
    if isinstance(value, Function):
        return [value]
    if isinstance(value, Partial):
        return _functions_of(value.function)
    return []


@lru_cache(maxsize=1000)
def _repeats(node: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop does the same at each turn: its body does not mention what the turns differ in."""
    names = {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
    mentioned = {each.id for statement in node.body for each in ast.walk(statement) if isinstance(each, ast.Name)}
    return isinstance(node.target, ast.Name) and not names & mentioned


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    return target


def _name_of(change: Change) -> str:
    if isinstance(change.key, str) and change.key != "items":
        return (
            f"`{change.key}`"
            if isinstance(change.holder, Scope)
            else f"the attribute `{change.key}`"
            if not isinstance(change.holder, Mapping)
            else f"the item `{change.key!r}`"
        )
    return "this container"


def refills(node: ast.If) -> bool:
    """Whether a branch assigns what its condition asks about: `if self.mask is None or self.mask.shape[0] != n: self.mask = …`."""
    targets = {
        ast.unparse(target)
        for statement in node.body
        for inner in ast.walk(statement)
        if isinstance(inner, ast.Assign)
        for target in inner.targets
        if isinstance(target, (ast.Attribute, ast.Subscript))
    }
    asked = (
        {ast.unparse(each) for each in ast.walk(node.test) if isinstance(each, (ast.Attribute, ast.Subscript))}
        if targets
        else set()
    )
    return bool(targets & asked)


_STATEMENTS: dict[type, Callable[[Machine, Any], int]] = {
    ast.Expr: Machine._expression,
    ast.Assign: Machine._assign,
    ast.AnnAssign: Machine._annotated,
    ast.AugAssign: Machine._augmented,
    ast.If: Machine._if,
    ast.While: Machine._while,
    ast.For: Machine._for,
    ast.AsyncFor: Machine._for,
    ast.Try: Machine._try,
    ast.TryStar: Machine._try,
    ast.With: Machine._with,
    ast.AsyncWith: Machine._with,
    ast.Return: Machine._return,
    ast.Raise: Machine._raise,
    ast.Assert: Machine._assert,
    ast.FunctionDef: Machine._define,
    ast.AsyncFunctionDef: Machine._define,
    ast.ClassDef: Machine._class,
    ast.Import: Machine._import,
    ast.ImportFrom: Machine._import_from,
    ast.Global: Machine._global,
    ast.Nonlocal: Machine._nonlocal,
    ast.Delete: Machine._delete,
    ast.Match: Machine._match,
    ast.Break: Machine._leave,
    ast.Continue: Machine._leave,
}

_CALLS: dict[type, Callable[..., Value]] = {
    Function: Machine._call_function,
    Bound: Machine._call_bound,
    Partial: Machine._call_partial,
    Choice: Machine._call_choice,
    Native: Machine._call_native,
    Class: Machine._call_class,
    Instance: Machine._call_instance,
    External: Machine._call_external,
    Method: Machine._call_method,
    Object: Machine._call_object,
}
