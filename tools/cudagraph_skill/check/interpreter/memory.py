"""Keep what outlives one call of the captured code, and compare what it holds from round to round.

The captured code runs several times, as a warm-up and a capture would. A *slot* is an attribute, a name, a dict entry or the items
of a list. What a slot holds at the start of the last two rounds shows which host values change from call to call, and which
tensors were rebound instead of copied into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.check.interpreter.frames import CONTINUE, NEXT, Site
from cudagraph_skill.check.interpreter.identity import fingerprint
from cudagraph_skill.check.interpreter.reports import Reports, Slot, Write
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.torch_state import State
from cudagraph_skill.check.interpreter.values import (
    Array,
    Bound,
    Class,
    External,
    Function,
    Holder,
    Host,
    Instance,
    Mapping,
    Object,
    Scope,
    Sequence,
    Tensor,
    Value,
    is_none,
    join,
    joined,
    origins_of,
    quoted,
    tensors_in,
)

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable

_WRITES = 40  # writes to one slot that are remembered
_ITEMS = 64  # items of a list that are told apart

# A write that can be taken back: the slots or the list, the key, and what was there. Also what a branch has put there.
Entry = tuple[Any, Any, Any]
Branch = dict[tuple[int, Any], Entry]


class Change(NamedTuple):
    """A slot with the holder that it belongs to."""

    holder: Holder
    key: Any


class Found(NamedTuple):
    """A Python value that captured code found in a slot."""

    holder: Holder
    key: Any
    value: Host


class Memory(Reports):
    """The slots of a run: what each round wrote and read in them."""

    def __init__(self, main_path: str) -> None:
        super().__init__(main_path)
        self.torch = State()
        self.round = 0
        self.journal: list[Entry] = []
        # Since the run began
        self.dirty: dict[Slot, Change] = {}
        self.mutated: set[int] = set()  # CPU memory that captured code changes in place, at every call
        # Where captured code writes to tensors that it has not made: the code that does, and their memory
        self.inputs_written: dict[Site, tuple[str, frozenset[int]]] = {}
        self.bound_at: dict[Slot, Site] = {}  # where a script last bound a slot to a tensor
        self.fresh_state: dict[Slot, tuple[frozenset[int], Site]] = {}  # tensors put where nothing was before
        self.firsts: dict[Slot, tuple[frozenset[int], Site]] = {}  # those of the first round of a capture
        self._begin()
        # What a script does around its captures
        self.turn = 0  # counts bindings of names and writes to GPU memory
        self.bound_in: dict[Slot, int] = {}  # when each slot was last bound
        self.filled_in: dict[int, int] = {}  # when each GPU memory was last written in place
        self.copying = False  # the statement gives a name what another name has, or what a call returns
        self.binding: Callable[[Slot, Value, ast.AST], None] | None = None
        self.reading: Callable[[Slot, Value], Value] | None = None  # what a script reads after its capture

    def _begin(self) -> None:
        """Forget what belongs to one round."""
        self.old: dict[Slot, Value | None] = {}  # value of a slot before its first write
        self.used: set[int] = set()  # storages that GPU work reads
        self.updated: set[int] = set()  # storages that are written in place
        self.born: set[int] = set()  # storages that the round made
        self.read_slots: dict[Slot, Change] = {}
        self.read_at: dict[Slot, list[Site]] = {}
        self.set_inside: set[Slot] = set()  # slots that captured code has written
        self.region_reads: dict[Slot, tuple[Holder, Any, frozenset[int]]] = {}  # GPU tensors that the region found in a slot
        self.found: dict[Slot, Found] = {}  # Python values that it found in one
        self.emptied: set[Slot] = set()  # containers that were cleared before anything looked into them

    # Rounds -----------------------------------------------------------------------------------------------------------

    def begin_round(self, *, report: bool) -> None:
        """Start a call of the captured code; note what every slot holds that calls write to."""
        self.round += 1
        self.starts.append({slot: self._now(change) for slot, change in self.dirty.items()})
        self._begin()
        self.reporting = report
        self.torch.begin()

    def use(self, value: Value) -> None:
        """Note that the contents of these tensors are read."""
        for tensor in tensors_in(value):
            self.used |= tensor.storages

    def changes(self, slot: Slot) -> bool:
        """Tell whether a slot holds something else at the start of each call."""
        # The first round still fills caches and lazy state: only the last two tell what keeps changing.
        if len(self.starts) < 2 or slot not in self.starts[-1] or slot not in self.starts[-2]:
            return False
        return self.starts[-1][slot][0] != self.starts[-2][slot][0]

    def floor(self, value: Host) -> float | None:
        """Return what a number that only grows from call to call was at least at the call before; None for another."""
        steps = [self._growth(origin.slot) for origin in value.origins]
        if value.least is None or not steps or None in steps:
            return None
        return value.least - sum(step for step in steps if step is not None)

    def _growth(self, slot: Slot | None) -> float | None:
        """Return by how much a slot grew between the last two calls; None if it ever shrank, or holds no number."""
        held = [start[slot][1] for start in self.starts if slot in start] if slot is not None else []
        bounds = [value.least for value in held if isinstance(value, Host) and value.least is not None]
        return bounds[-1] - bounds[-2] if 1 < len(bounds) == len(held) and bounds == sorted(bounds) else None

    def _now(self, change: Change) -> tuple[object, Value | None]:
        holder, key = change
        if isinstance(holder, Sequence) and key == "items":
            # A copy: the list itself goes on changing in the rounds that follow.
            frozen = Sequence(holder.kind, holder.items and list(holder.items), 0, holder.rest)
            return fingerprint(frozen), frozen
        value = holder.slots.get(key)
        return (None if value is None else fingerprint(value)), value

    def report_left_behind(self) -> None:
        """Report state that this round rebound instead of copying into it, and side effects that no replay repeats."""
        for slot, old in list(self.old.items()):
            # A cache that each call clears first holds nothing of the call before.
            if slot in self.emptied:
                continue
            change = self.dirty[slot]
            start = self.starts[-1][slot][1] if slot in self.starts[-1] else old
            if start is None:
                continue
            if self._leaves_behind(slot, change, start):
                self._report_rebound(slot, change)
            else:
                self._report_unread(slot, change)

    def _leaves_behind(self, slot: Slot, change: Change, start: Value) -> bool:
        """Tell whether a replay goes on reading GPU memory that this round has taken out of the slot."""
        now = self._now(change)[1]
        before, after = _gpu_memory(_state_in(start)), _gpu_memory(tensors_in(now) if now is not None else [])
        read = before & self.used
        if not isinstance(change.holder, (Sequence, Mapping)):
            # What may be either of two tensors, one of them the old one, is a branch that did not rebind.
            return bool(read and after - before and not before <= after)
        reordered = bool(read) and before == after and _order(start) != _order(now)
        # A list that grows is read anew by every call of the Python code; the graph has the items of the capture.
        grown = isinstance(change.holder, Sequence) and bool(after - before) and slot in self.read_slots
        return grown or reordered or bool(read and after - before)

    def _report_rebound(self, slot: Slot, change: Change) -> None:
        container = isinstance(change.holder, (Sequence, Mapping))
        hazard, what = ("CG302", "grows or is replaced") if container else ("CG301", "is bound to a new tensor")
        writes = [write for write in self.writes[slot] if write.inside and write.round == self.round]
        for write in writes:
            message = f"{_name_of(change)} {what} here; a replay goes on reading the tensor that was there at capture"
            self.add(hazard, write.path, write.line, write.column, message, write.via)
        # Where the growing list is read is as much a place to change as where it grows.
        for place in self.read_at.get(slot, ()) if container and writes else ():
            message = f"reads {_name_of(change)}, of which a replay knows only what was in it at capture"
            self.add("CG302", *place, message, ())

    def _report_unread(self, slot: Slot, change: Change) -> None:
        """Report a Python side effect that nothing on the GPU depends on."""
        if slot in self.sunk or not (self.changes(slot) or isinstance(change.holder, Sequence)):
            return
        now = self._now(change)[1]
        # A tensor that is put away is an output, and so are several, or something of which nothing is known: CG308 looks after these.
        output = type(now) is Value or isinstance(now, Sequence) or (now is not None and bool(tensors_in(now)))
        if isinstance(now, Tensor) or (output and not isinstance(change.holder, Sequence)):
            return
        for write in self.writes[slot]:
            if write.inside and write.round == self.round:
                message = f"{_name_of(change)} changes here at every call of the Python code, and at no replay"
                self.add("CG107", write.path, write.line, write.column, message, write.via)

    # Writes -----------------------------------------------------------------------------------------------------------

    def write(self, holder: Holder, key: Any, value: Value, node: ast.AST) -> None:
        """Put a value into a slot; what outlives the call is remembered."""
        # What is written only under a changing condition changes with the condition.
        if self.control and isinstance(value, (Host, Array)):
            value = value.marked(frozenset().union(*(origins for origins, _, _ in self.control)))
        if self.explaining:
            self.places[id(holder), key] = self.site(node)
        old = holder.slots.get(key)
        self.journal.append((holder.slots, key, old))
        holder.slots[key] = value
        # A Python value matters only where a capture has found another one there.
        if not self.inside and self.torch.script and (self.round or isinstance(value, Tensor) or type(value) is Value):
            self._note_binding((id(holder), key), value, node)
        # What this round has made itself is gone after it.
        if self.round and holder.made < self.round:
            self._remember(holder, key, old, node)

    def _note_binding(self, slot: Slot, value: Value, node: ast.AST) -> None:
        """Note where a script binds a name: a replay goes on reading the tensor, or the number, that was there before."""
        self.bound_at[slot] = self.site(node)
        self.turn += 1
        self.bound_in[slot] = self.turn
        if self.binding is not None and self.copying and isinstance(value, Tensor):
            self.binding(slot, value, node)

    def fill(self, storages: Iterable[int]) -> None:
        """Note that GPU memory is written in place."""
        if not self.inside:
            self.turn += 1
            self.filled_in.update(dict.fromkeys(storages, self.turn))

    def write_items(self, sequence: Sequence, items: list[Value] | None, rest: Value | None, node: ast.AST) -> None:
        """Replace what a list holds."""
        old = Sequence(sequence.kind, sequence.items, 0, sequence.rest)
        self.journal.append((sequence, "items", (sequence.items, sequence.rest)))
        # A loop may append for ever: from some length on one value stands for all items.
        if items is not None and len(items) > _ITEMS:
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
            if isinstance(now, Tensor) and now.on_gpu and (old is None or is_none(old)):
                self.fresh_state.setdefault(slot, (now.storages, self.site(node)))
        # Code that the capture would not reach changes what later code sees, but is not a line to report.
        if self.quiet:
            return
        writes = self.writes.setdefault(slot, [])
        if len(writes) < _WRITES:
            writes.append(Write(self.round, *self.site(node), self.inside, self.via()))

    def mutate(self, value: Value, node: ast.AST, *causes: Value) -> None:
        """Note that a CPU tensor or numpy array is changed in place."""
        # A view and what it is a view of hold the same numbers.
        for changed in (value, value.base) if isinstance(value, Tensor) and value.base is not None else (value,):
            changed.sym = mix("mutated", changed.sym, getattr(node, "lineno", 0), *(cause.sym for cause in causes))
            changed.origins |= origins_of(causes)
            if self.inside and isinstance(changed, Array):
                self.mutated.add(id(changed))

    # Reads ------------------------------------------------------------------------------------------------------------

    def read(self, holder: Holder, key: Any, value: Value, node: ast.AST) -> Value:
        """Return what a slot holds, marked where that changes from call to call."""
        slot = (id(holder), key)
        if not self.inside:
            return self._read_outside(slot, value)
        self._note_found(holder, key, value)
        if slot in self.since and slot not in self.set_inside:
            return self._stale(slot, node)
        # What this round has made itself is new in every call, so nothing of it is frozen from an earlier one.
        if holder.made >= self.round:
            return value
        if isinstance(value, Host) and slot not in self.set_inside:
            value = value.settled()
        if isinstance(value, (Tensor, Array)) and _host_memory(value) & self.mutated:
            message = f"{quoted(node)} is CPU memory that changes at every call; the graph keeps what it had at capture"
            return value.marked(self.origin("CG106", node, message))
        if slot not in self.dirty or not self.changes(slot) or self._set_before(holder, slot, value):
            return value
        self.read_slots[slot] = Change(holder, key)
        self.read_at.setdefault(slot, []).append(self.site(node))
        return self._changing(slot, value, node)

    def _note_found(self, holder: Holder, key: Any, value: Value) -> None:
        """Note what captured code of a script finds in a slot: a replay goes on with it, whatever is put there later."""
        slot = (id(holder), key)
        if not self.torch.script:
            return
        if isinstance(value, Tensor) and value.on_gpu:
            self.region_reads[slot] = (holder, key, value.storages)
        elif isinstance(value, Host) and slot not in self.set_inside:
            self.found.setdefault(slot, Found(holder, key, value))

    def _stale(self, slot: Slot, node: ast.AST) -> Value:
        """Mark a Python value that is another one when this capture is replayed."""
        since = self.since[slot]
        if since.hazard == "CG103":
            message = f"the argument {quoted(node)} differs from call to call; the graph keeps the value that it has at capture"
        else:
            path, line, _ = since.site
            place = f"line {line}" if path == self.site(node)[0] else f"{path}:{line}"
            message = f"{quoted(node)} is set after the capture ({place}); the graph keeps the value that it has at capture"
        return since.then.marked(self.origin(since.hazard, node, message, slot))

    def _read_outside(self, slot: Slot, value: Value) -> Value:
        # Before the first capture, or call of a function with graphs of its own, nothing is an output of a graph.
        if self.reading is None or not (self.round or self.torch.compiled):
            return value
        return self.reading(slot, value)

    def known_items(self, sequence: Sequence, node: ast.AST) -> list[Value] | None:
        """Return the items of a list, noting that this call looks into it; None where they are not known one by one."""
        slot = (id(sequence), "items")
        older = self.inside and slot in self.dirty and sequence.made < self.round and slot not in self.emptied
        if older and self.changes(slot):
            self.read_slots[slot] = self.dirty[slot]
            # The list as a whole is marked like a number that changes; its items are what carries the mark on.
            marks = self.read(sequence, "items", Host("", sym=0), node).origins
            if marks and sequence.items is not None:
                return [item if isinstance(item, Tensor) else item.marked(marks) for item in sequence.items]
        return sequence.items

    def _set_before(self, holder: Holder, slot: Slot, value: Value) -> bool:
        """Tell whether this call has set the slot anew, from nothing that it held, before reading it."""
        if slot not in self.set_inside or isinstance(holder, Sequence):
            return False
        return not any(origin.slot == slot for origin in value.origins)

    def _changing(self, slot: Slot, value: Value, node: ast.AST) -> Value:
        """Mark a value that a slot holds only in this call; report one that is used as it is."""
        inside = any(write.inside for write in self.writes.get(slot, ()))
        what = quoted(node)
        if isinstance(value, Tensor) and value.on_gpu:
            # Captured code that rebinds it is reported with the other state, at the end of the round.
            if not inside:
                message = f"{what} is bound to another tensor between calls; a replay reads the one of the capture"
                self.report("CG102", node, message)
            return value
        hazard = "CG106" if isinstance(value, (Tensor, Array)) else "CG101" if inside else "CG102"
        how = "changes at every call" if inside else "is set by other code between calls"
        origins = self.origin(hazard, node, f"{what} {how}; the graph keeps the value that it has at capture", slot)
        # These carry no marks of their own, and choosing among them decides what the region does.
        if isinstance(value, (Function, Bound, Instance, Class, Object, External)):
            self.emit(origins)
            return value
        return value.marked(origins)

    # Forks ------------------------------------------------------------------------------------------------------------

    def fork(self, first: Callable[[], int], second: Callable[[], int]) -> int:
        """Run both, and go on with what may be so after either."""
        mark = len(self.journal)
        one = first()
        after = self.undo(mark)
        other = second()
        # A branch that leaves has no part in what follows.
        if one != NEXT and other == NEXT:
            return NEXT
        if other != NEXT and one == NEXT:
            self.undo(mark)
            self._redo(after, alone=True)
            return NEXT
        self._redo(after, alone=False)
        # Both leave: the one that leaves less far may be taken, so the code behind the nearer loop is read.
        return min(one, other) if NEXT in {one, other} else max(CONTINUE, min(one, other))

    def undo(self, mark: int) -> Branch:
        """Take back the writes since `mark`; return what they had put where."""
        after: Branch = {}
        for place, key, old in reversed(self.journal[mark:]):
            # The last write of a slot is the first that is met, and the one that counts.
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

    def _redo(self, after: Branch, *, alone: bool) -> None:
        """Put back what a branch had written: `alone`, or joined with what the other branch has left there."""
        for place, key, value in after.values():
            if isinstance(place, Sequence):
                self.journal.append((place, key, (place.items, place.rest)))
                # Of two lists the longer one is kept: an index into it is then known not to fail.
                if alone or place.items is None or value[0] is None or len(place.items) <= len(value[0]):
                    place.items, place.rest = value
                continue
            now = place.get(key)
            self.journal.append((place, key, now))
            if value is not None:
                place[key] = value if alone or now is None else join(now, value, self.round)


def _host_memory(value: Tensor | Array) -> frozenset[int]:
    """Return what names the CPU memory of a value; nothing for one on the GPU."""
    if isinstance(value, Array):
        return frozenset((id(value),))
    return frozenset() if value.on_gpu else value.storages


def _gpu_memory(tensors: list[Tensor]) -> set[int]:
    return {memory for tensor in tensors if tensor.on_gpu for memory in tensor.storages}


def _order(value: Value | None) -> list[frozenset[int]]:
    return [tensor.storages for tensor in tensors_in(value)] if value is not None else []


def _state_in(value: Value) -> list[Tensor]:
    """Return the tensors that a slot leads to: in containers, and in plain objects such as dataclasses."""
    # A module in a slot is not state of the slot: its parameters stay where they are.
    if isinstance(value, Instance) and not any(name.startswith("torch.nn.") for name in value.cls.libraries()):
        return [tensor for part in value.slots.values() for tensor in tensors_in(part)]
    return tensors_in(value)


def _name_of(change: Change) -> str:
    """Return what a message calls a slot."""
    if not isinstance(change.key, str) or change.key == "items":
        return "this container"
    if isinstance(change.holder, Scope):
        return f"`{change.key}`"
    return f"the item `{change.key!r}`" if isinstance(change.holder, Mapping) else f"the attribute `{change.key}`"
