"""Follow what a script does after a capture: replays, kept outputs, rebound inputs, changed parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.check import edits
from cudagraph_skill.check.interpreter.frozen import Frozen
from cudagraph_skill.check.interpreter.reachable import reachable
from cudagraph_skill.check.interpreter.values import (
    Holder,
    Host,
    Instance,
    Mapping,
    Object,
    Partial,
    Sequence,
    Tensor,
    Value,
    is_none,
    quoted,
    tensors_in,
)

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.findings import Edit
    from cudagraph_skill.check.interpreter.frames import Frame, Site
    from cudagraph_skill.check.interpreter.machine import Machine
    from cudagraph_skill.check.interpreter.reports import Slot

_MODULE_CHANGES = {"load_state_dict", "zero_grad", "to", "half", "double", "bfloat16", "float"}
_KEEPS_OUTPUT = "keeps an output of the graph, which the next replay overwrites"
_KEEPS_COMPILED = "keeps what a compiled function with CUDA graphs gave over its next call, which overwrites it"


class Captured(NamedTuple):
    """A capture that a script made: the graph, what its replays will go on reading, the memory that it made."""

    graph: Value | None
    slots: dict[Slot, tuple[Holder, Any, frozenset[int], Site | None]]
    born: frozenset[int]
    used: frozenset[int]
    backward: bool  # it has one
    own: bool  # gradients come to be in it, in memory of its own
    stepped: frozenset[int]  # memory of parameters that it updates
    site: Site | None  # where it has a memory pool of its own, unless that was said
    via: tuple[str, ...]


class Replays:
    """The captures of a script, and what happens between their replays."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.frozen = Frozen(machine)
        self.captured: list[Captured] = []
        self.count = 0
        self.replayed: set[int] = set()  # graphs that were replayed since their capture: what is in their outputs is a result
        self.modes: dict[int, object] = {}  # of modules that were graphed: training or not
        self.accumulating: Site | None = None  # a captured backward whose gradients nobody zeroes
        self.open: list[Frame] = []  # calls in which the last capture was made
        # Findings that are true only if a replay follows.
        self._pending: list[tuple[str, Site, str, Edit | None]] = []
        self._kept: dict[Slot, tuple[Value, int, Site]] = {}  # names that hold an output, and after how many replays
        machine.torch.keeping = self._on_keep
        machine.torch.setting = self._on_set
        machine.reading = self._on_read
        machine.binding = self._on_bind
        machine.leaving = self._on_leave

    # Captures ---------------------------------------------------------------------------------------------------------

    def remember(self, graph: Object, node: ast.AST, *, gradients_left: bool) -> Value | None:
        """Note what replays of this capture will go on reading, by the slots that the script has for it; return its graph."""
        machine, state = self.machine, self.machine.torch
        slots = {
            slot: (holder, key, storages, machine.bound_at.get(slot))
            for slot, (holder, key, storages) in machine.region_reads.items()
            if storages & machine.used and not storages & machine.born
        }
        if state.backward_at is not None and gradients_left and not state.zeroed:
            self.accumulating = state.backward_at
        owner = graph.args[0] if graph.args else graph.kwargs.get("cuda_graph")
        pooled = machine.quiet or "pool" in graph.kwargs or len(graph.args) > 1
        # A graph that is captured again forgets what it read before.
        self.captured = [capture for capture in self.captured if capture.graph is not owner]
        self._pending = []
        self.captured.append(
            Captured(
                owner,
                slots,
                frozenset(machine.born),
                frozenset(machine.used),
                backward=state.backward_at is not None,
                own=state.dropped or not state.gradients_held,
                stepped=frozenset(state.stepped | machine.updated),
                site=None if pooled else machine.site(node),
                via=machine.via(),
            )
        )
        self.replayed.discard(id(owner))
        self.open = list(machine.frames)
        self.report_pools(self.alive(), several=True)
        return owner

    def alive(self, *results: Value) -> list[Value]:
        """Return what is alive at this moment: running calls, modules, results."""
        machine = self.machine
        return [*(frame.scope for frame in machine.frames), *(module.scope for module in machine.project.modules()), *results]

    def report_pools(self, roots: list[Value], *, several: bool = False) -> None:
        """Report captures with a memory pool of their own while an earlier graph is kept too."""
        if not any(capture.site for capture in self.captured[1:]):
            return
        alive = reachable(roots, several=several) | ({id(self.captured[-1].graph)} if several else set())
        # The first of those that are kept has a pool that the others could share.
        for capture in [capture for capture in self.captured if id(capture.graph) in alive][1:]:
            # A capture that is repeated at every step (CG409) is to be taken out of the loop first.
            if capture.site is not None and (*capture.site[:2], "CG409") not in self.machine.findings:
                message = "this graph gets a memory pool of its own beside the others': pass pool=first.pool()"
                self.machine.add("CG505", *capture.site, message, capture.via)

    def _on_leave(self, frame: Frame) -> None:
        """Look at what the names of a call hold that ends, if something was captured in it."""
        if frame in self.open:
            self.report_pools([value for value in frame.scope.slots.values() if value is not frame.receiver])

    # Outputs ----------------------------------------------------------------------------------------------------------

    def _is_output(self, value: Value) -> bool:
        """Tell whether a value is in the memory of a graph that has been replayed, or of a graphed callable's results."""
        born = {memory for capture in self.captured if id(capture.graph) in self.replayed for memory in capture.born}
        outputs = self.machine.torch.outputs.values()
        born |= {memory for output in outputs for tensor in tensors_in(output) for memory in tensor.storages}
        return any(tensor.storages & born and tensor.on_gpu for tensor in tensors_in(value))

    def _is_compiled(self, value: Value) -> bool:
        """Tell whether a value is in memory that a call of a reduce-overhead function gave."""
        return any(tensor.storages & self.machine.torch.compiled.keys() for tensor in tensors_in(value))

    def _on_keep(self, machine: Machine, _: Sequence, new: Value, node: ast.AST) -> None:
        """Look at what is put into a list."""
        # A list in a list is looked at when it is made.
        if not machine.inside and not isinstance(new, Sequence):
            self._look_at_kept(new, node)

    def _look_at_kept(self, new: Value, node: ast.AST) -> None:
        """Report an output that is put away, if a replay follows."""
        if self._is_compiled(new):
            self._later("CG311", node, f"{quoted(node)} {_KEEPS_COMPILED}")
        elif self.captured and self._is_output(new):
            self._later("CG308", node, f"{quoted(node)} {_KEEPS_OUTPUT}")

    def _on_bind(self, slot: Slot, value: Value, node: ast.AST) -> None:
        """Note a name that gets an output: reading it after another replay reads that replay's numbers."""
        compiled = self.machine.torch.compiled
        awaits = any(compiled.get(memory) for tensor in tensors_in(value) for memory in tensor.storages)
        if (self._is_compiled(value) and not awaits) or (self.captured and self._is_output(value)):
            self._kept[slot] = (value, self.count, self.machine.site(node))

    def _on_read(self, slot: Slot, value: Value) -> Value:
        """Report a name that is read after its output was overwritten."""
        kept = self._kept.get(slot)
        if kept is None or kept[0] is not value or self.count <= kept[1]:
            return value
        if self._is_compiled(value):
            self.machine.add("CG311", *kept[2], f"this name {_KEEPS_COMPILED}", ())
        else:
            message = "this name keeps an output of the graph over the next replay, which overwrites it"
            self.machine.add("CG308", *kept[2], message, ())
        return value

    # Inputs, parameters and gradients ---------------------------------------------------------------------------------

    def _on_set(self, machine: Machine, owner: Value, name: str, new: Value, node: ast.AST) -> None:
        """Look at an attribute or dict entry that is set after a capture."""
        if machine.inside:
            return
        if isinstance(owner, Mapping) and isinstance(new, Tensor):
            self._look_at_kept(new, node)
        elif self.captured and isinstance(owner, Tensor):
            self._on_tensor_set(owner, name, new, node)
        elif self.captured and isinstance(owner, (Instance, Object)) and isinstance(new, Tensor) and new.parameter:
            old = owner.slots.get(name)
            if isinstance(old, Tensor) and self._reads(old):
                message = f"{quoted(node)} is replaced after the capture; replays go on reading the old parameter"
                self._later("CG305", node, message)

    def _on_tensor_set(self, owner: Tensor, name: str, new: Value, node: ast.AST) -> None:
        if name == "data" and self._reads(owner):
            self._later("CG305", node, f"{quoted(node)} gets new memory after the capture; replays go on reading the old")
        elif name == "grad" and is_none(new):
            self.accumulating = None
            if self._needs_gradients([owner]):
                self._later("CG307", node, f"{quoted(node)} = None drops the gradient that the graph writes to")

    def on_call(self, owner: Value, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> None:
        """Look at a call outside of captured code: of a graph, of something graphed, of a module or optimizer."""
        if name == "replay":
            self._on_replay(owner)
        elif name == "graphed" and isinstance(owner, Partial):
            self._on_graphed_call(owner)
        elif name == "replayed" and isinstance(owner, Partial):
            self.frozen.compare(owner.function)
        elif name == "zero_grad" and type(owner) is Value:
            self.accumulating = None  # whose gradients these are is not known
        elif self.captured and name in _MODULE_CHANGES:
            self._on_module_change(owner, name, args, kwargs, node)

    def _on_module_change(self, owner: Value, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> None:
        owned = self._parameters(owner)
        if not any(self._reads(tensor) for tensor in owned):
            return
        if name == "load_state_dict":
            assign = kwargs.get("assign")
            # Without it the state is copied into the memory that the graph reads.
            if isinstance(assign, Host) and assign.value is True:
                self._later("CG305", node, f"{quoted(node)} replaces parameters; replays go on reading the old ones")
        elif name == "zero_grad":
            self.accumulating = None
            trained = [tensor for tensor in owned if tensor.parameter != "buffer" and not tensor.frozen]
            if self.machine.library.drops_gradients(args, kwargs) and self._needs_gradients(trained):
                edit = edits.keyword(node, "set_to_none", "False")
                self._later("CG307", node, f"{quoted(node)} drops the gradients that the graph writes to", edit)
        elif name in {"half", "double", "bfloat16"} or _names_dtype([*args, *kwargs.values()]):
            self._later("CG305", node, f"{quoted(node)} gives parameters new memory; replays go on reading the old")

    def _parameters(self, owner: Value) -> list[Tensor]:
        """Return the tensors of this module or optimizer."""
        return self.machine.library.parameters_of(owner) or self.machine.library.tensors_of(self.machine, owner)

    def _reads(self, tensor: Tensor) -> bool:
        """Tell whether a replay reads this tensor."""
        return any(tensor.storages & capture.used for capture in self.captured)

    def _needs_gradients(self, parameters: list[Tensor]) -> bool:
        """Tell whether a captured backward writes gradients of these that code outside of graphs goes on using."""
        stepped = {memory for capture in self.captured for memory in capture.stepped}
        return any(
            # Gradients that the graph makes itself and that a captured optimizer reads are nobody else's.
            capture.backward and parameter.storages & capture.used and not (capture.own and parameter.storages & stepped)
            for capture in self.captured
            for parameter in parameters
        )

    # Replays ----------------------------------------------------------------------------------------------------------

    def _later(self, hazard: str, node: ast.AST, message: str, edit: Edit | None = None) -> None:
        """Keep a finding until a replay follows."""
        self._pending.append((hazard, self.machine.site(node), message, edit))

    def _on_replay(self, graph: Value) -> None:
        """Report what was done since the capture and matters to this replay."""
        machine = self.machine
        self.count += 1
        if id(graph) not in self.replayed:
            self.replayed.add(id(graph))
            # A graph that is replayed was kept: is another one kept beside it?
            self.report_pools(self.alive())
        self.frozen.compare(graph)
        for capture in self.captured:
            if capture.graph is graph:
                self._report_rebound_inputs(capture)
        self._report_pending()
        machine.torch.inflight |= machine.torch.downloads
        # One replay adds to the gradients once, which a program may want.
        if self.accumulating is not None and self.count > 1:
            message = "this backward adds to gradients that were there before the capture, and nothing sets them to zero between replays"
            machine.add("CG307", *self.accumulating, message, ())

    def _report_rebound_inputs(self, capture: Captured) -> None:
        """Report names that the script has bound to another tensor since the capture read them."""
        machine = self.machine
        for slot, (holder, key, storages, bound) in capture.slots.items():
            now = holder.slots.get(key)
            where = machine.bound_at.get(slot)
            unknown = type(now) is Value
            other = unknown or (isinstance(now, Tensor) and not now.storages & storages)
            # Where the captured memory gets new data behind the assignment, the name is for something else.
            filled = any(machine.filled_in.get(memory, 0) > machine.bound_in.get(slot, 0) for memory in storages)
            if other and where is not None and where != bound and not filled:
                message = f"`{key}` is bound to a new tensor after the capture; replays go on reading the old one"
                machine.add("CG304", *where, message, (), certain=not unknown)

    def _on_graphed_call(self, owner: Partial) -> None:
        """Look at a call of a graphed callable: a replay, if its module is in the mode of the capture."""
        self.count += 1
        self.frozen.compare(owner.function)
        mode = self.modes.get(id(owner.function))
        now = owner.function.slots.get("training") if isinstance(owner.function, Holder) else None
        place = self.machine.torch.mode_at.get(id(owner.function))
        if mode is not None and isinstance(now, Host) and place is not None and now.known and now.value != mode:
            message = "the module is called in another mode than it was graphed in: that runs eagerly, without a graph"
            self.machine.add("CG309", *place, message, ())
        self._report_pending()

    def _report_pending(self) -> None:
        for hazard, place, message, edit in self._pending:
            self.machine.add(hazard, *place, message, (), edit)
        self._pending.clear()


def _names_dtype(values: list[Value]) -> bool:
    """Tell whether a dtype is among the arguments: `to("cuda")` of what is there already makes no new memory."""
    return any(isinstance(value, Host) and value.kind == "dtype" for value in values)
