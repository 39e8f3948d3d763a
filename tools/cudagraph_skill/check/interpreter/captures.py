"""What is captured in a file, and with which objects and arguments: the code that the machine runs as warm-up and as capture."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.check import edits
from cudagraph_skill.check.findings import Edit, Region
from cudagraph_skill.check.interpreter.frames import Exhausted, Frame
from cudagraph_skill.check.interpreter.machine import Machine
from cudagraph_skill.check.interpreter.values import (
    Bound,
    Class,
    Function,
    Holder,
    Host,
    Instance,
    Mapping,
    Native,
    Object,
    Partial,
    Scope,
    Sequence,
    Tensor,
    Value,
    const,
    fresh,
    number,
    quoted,
    reachable,
    tensors_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.input.modules import Project
    from cudagraph_skill.check.interpreter.library import Library

_WARM_UPS = 3
_SAMPLES = ("inputs", "get_inputs", "example_inputs", "sample_inputs", "make_inputs", "sample_args", "example_args")
_TENSOR_NAMES = {
    "x", "y", "z", "input", "inputs", "hidden_states", "hidden", "input_ids", "attention_mask", "mask", "logits", "labels", "target",
    "targets", "query", "key", "value", "q", "k", "v", "position_ids", "pixel_values", "inputs_embeds", "tokens", "images", "image",
    "data", "batch", "encoder_hidden_states", "token_type_ids", "features", "sample", "residual", "latents", "noise", "timestep",
    "timesteps", "grad", "weights", "bias", "boxes", "scores",
}  # fmt: skip
_TENSOR_ATTRIBUTES = {
    "shape", "size", "view", "reshape", "unsqueeze", "squeeze", "permute", "transpose", "contiguous", "detach", "mean", "sum",
    "softmax", "flatten", "expand", "masked_fill", "new_zeros", "numel", "to", "float", "device", "dtype", "dim", "clone", "chunk",
    "split", "matmul", "is_cuda", "argmax", "log_softmax", "type_as", "repeat", "half", "ndim", "item", "cpu", "tolist", "any", "all",
    "norm", "clamp", "backward", "masked_select", "nonzero", "unbind", "gather", "cumsum", "bool", "long", "int", "abs", "max", "min",
}  # fmt: skip
_SURE = _TENSOR_ATTRIBUTES - {
    "size",
    "to",
    "split",
    "item",
    "device",
    "dtype",
    "any",
    "all",
    "repeat",
    "max",
    "min",
    "cpu",
    "float",
    "int",
    "copy",
}


class Captured(NamedTuple):
    """A capture that a script made: the graph, what its replays will go on reading, the memory that it made."""

    graph: Value | None
    slots: dict[tuple[int, Any], tuple[Holder, Any, frozenset[int], tuple[str, int, int] | None]]
    born: frozenset[int]
    used: frozenset[int]
    backward: bool  # it has one
    own: bool  # gradients come to be in it, in memory of its own
    stepped: frozenset[int]  # memory of parameters that it updates
    site: tuple[str, int, int] | None  # where it has a memory pool of its own, unless that was said
    via: tuple[str, ...]


class Reader:
    """Reads one file: builds what its code builds, finds what is captured, and runs that."""

    def __init__(self, project: Project, library: Library, budget: int = 200_000) -> None:
        self.project = project
        self.machine = Machine(project, library, budget)
        self.machine.region_hook = self._with_graph
        self.machine.leaving = self._leaving
        self.machine.torch.keeping = self._keeping
        self.machine.torch.setting = self._setting
        self.machine.torch.calling = self._calling
        self.regions: list[Region] = []
        self.done: set[int] = set()
        self.captured: list[Captured] = []
        self.pending: list[tuple[str, tuple[str, int, int], str, Edit | None]] = []
        self.kept: dict[tuple[int, Any], tuple[Value, int, tuple[str, int, int]]] = {}
        self.modes: dict[int, object] = {}
        self.machine.reading = self._reading
        self.machine.binding = self._binding
        self.exhausted = False  # what was captured, or the function that was named, is larger than the budget
        self.program_exhausted = False  # the code around it is
        self.built: Value | None = None  # what the function returned that makes the captured one
        self.changed: list[int] = []  # places of Python arguments that differ from those of the call before
        self._varied = False
        self._argument_syms: tuple[object, ...] = ()
        self.accumulating: tuple[str, int, int] | None = None  # a captured backward whose gradients nobody zeroes
        self.replays = 0
        self.open: list[Frame] = []  # calls in which the last capture was made
        self.replayed: set[int] = set()  # graphs that were replayed since their capture: what is in their outputs is a result

    # A function that the user named -----------------------------------------------------------------------------------

    def named(self, qualname: str, path: list[ast.AST], how: str = "named") -> None:
        """Read one function or class as captured code."""
        node = path[-1]
        self.regions.append(Region(self.project.main.path, getattr(node, "lineno", 1), qualname, how))
        self._guarded(lambda: self._named(path))

    def _guarded(self, run: Callable[[], object], *, program: bool = False) -> None:
        try:
            run()
        except (Exhausted, RecursionError) as error:
            around = program and error.args == (False,)
            self.exhausted = self.exhausted or not around
            self.program_exhausted = self.program_exhausted or around
            self.machine.frames.clear()
            self.machine.control.clear()
            self.machine.inside = self.machine.reporting = False
            self.machine.quiet = 0

    def _named(self, path: list[ast.AST]) -> None:
        self.machine.load(self.project.main)
        self._build(path)
        entry, node = self._entry(path)
        if entry is None or node is None:
            return
        with_frame = Frame(self.project.main, Scope(0, None, self.project.main.scope), "<module>")
        with_frame.scope.global_scope = self.project.main.scope
        self.machine.frames.append(with_frame)
        self.machine.named = True
        try:
            self._rounds(entry, node, self._samples(path, node))
        finally:
            self.machine.frames.clear()

    def _build(self, path: list[ast.AST]) -> None:
        """Run the functions that make the captured function or the objects that it is a method of."""
        node = path[-1]
        outer = path[0]
        if len(path) > 1 and isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._run_builder(outer)
        classes = {each.name for each in path if isinstance(each, ast.ClassDef)}
        if not classes:
            return
        for each in _builders(self.project.main.tree, classes):
            if each is not outer:
                self._run_builder(each)
        del node

    def _run_builder(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        function = self.project.main.scope.slots.get(node.name)
        if not isinstance(function, Function) or id(node) in self.done:
            return
        self.done.add(id(node))
        frame = Frame(self.project.main, self.project.main.scope, "<module>")
        self.machine.frames.append(frame)
        made = self.machine.call(function, [], self._guesses(node, function), node)
        self.machine.frames.clear()
        self.built = made

    def _guesses(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, function: Function) -> dict[str, Value]:
        """Arguments of a function that nobody calls: defaults, annotations, names, and how the body uses them."""
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        found: dict[str, Value] = {}
        for argument in arguments:
            name = argument.arg
            if name in {"device", "dev"}:
                found[name] = const("cuda")
            elif name not in function.defaults:
                found[name] = guess(argument, node)
        return found

    def _entry(self, path: list[ast.AST]) -> tuple[Value | None, ast.AST | None]:
        """The callable, and the function whose body it runs."""
        node = path[-1]
        if isinstance(node, ast.ClassDef):
            instance = self._instance(node)
            method = instance.cls.find("forward") or instance.cls.find("__call__") if instance else None
            return instance, method[1].node if method and isinstance(method[1], Function) else node
        owner = path[-2] if len(path) > 1 else None
        if isinstance(owner, ast.ClassDef):
            return self._method(owner, node), node
        made = self.machine.created.get(node)
        if not made:
            return None, None
        function: Value = made[-1]
        return self._as_bound(function, node), node

    def _as_bound(self, function: Value, node: ast.AST) -> Value:
        """The name's value, decorators included, where it is bound to that function."""
        if isinstance(function, Function):
            known = function.scope.slots.get(function.name)
            if isinstance(known, (Function, Partial, Bound, Native)):
                return known
        del node
        return function

    def _method(self, owner: ast.ClassDef, node: ast.AST) -> Value | None:
        instance = self._instance(owner)
        name = getattr(node, "name", "")
        if instance is None:
            return None
        found = instance.cls.find(name)
        if found is None:
            return None
        function = found[1]
        if isinstance(function, Function) and function.node is not node and node in self.machine.created:
            function = self.machine.created[node][-1]
        if isinstance(function, Function) and "staticmethod" in function.marks:
            return function
        if name in {"forward", "__call__"} and function is found[1]:
            return instance
        return Bound(instance, function)

    def _instance(self, node: ast.ClassDef) -> Instance | None:
        """An object of a class: one that the file makes, or one made up from the types of `__init__`."""
        known = [each for cls, each in self._instances() if cls.node is node or any(base.node is node for base in cls.line())]
        exact = [each for each in known if each.cls.node is node]
        if exact or known:
            return (exact or known)[-1]
        made = self.project.guessed.get(node)
        if made is None:
            cls = self._class_of(node)
            if cls is None:
                return None
            made = self._made_up(cls)
            made.guessed = True
            self.project.guessed[node] = made
        return made

    def _instances(self) -> list[tuple[Class, Instance]]:
        return [(each.cls, each) for found in self.machine.instances.values() for each in found]

    def _class_of(self, node: ast.ClassDef) -> Class | None:
        waiting: list[Value] = list(self.project.main.scope.slots.values())
        for each in waiting:
            if isinstance(each, Class):
                if each.node is node:
                    return each
                waiting += [inner for inner in each.slots.values() if isinstance(inner, Class)]
        return None

    def _made_up(self, cls: Class) -> Instance:
        machine = self.machine
        frame = Frame(self.project.main, self.project.main.scope, "<module>")
        machine.frames.append(frame)
        machine.library.complete(machine, cls)
        init = cls.find("__init__")
        kwargs: dict[str, Value] = {}
        if init and isinstance(init[1], Function):
            kwargs = self._guesses(init[1].node, init[1])
            names = init[1].node.args.posonlyargs + init[1].node.args.args
            if names:
                kwargs.pop(names[0].arg, None)
        made = machine.call(cls, [], kwargs, cls.node)
        machine.frames.clear()
        if not isinstance(made, Instance):
            made = Instance(cls, 0)
        for each in machine.library.all_modules(machine, made):
            if isinstance(each, Holder):
                for name in ("training",):
                    if name in each.slots:
                        each.slots[name] = Host("bool")
        for tensor in machine.library.tensors_of(machine, made):
            tensor.device = "cuda"
        return made

    # Arguments --------------------------------------------------------------------------------------------------------

    def _samples(self, path: list[ast.AST], node: ast.AST) -> Callable[[], tuple[list[Value], dict[str, Value]]]:
        """What gives fresh arguments for each call: a function of the user's for that, a call that was seen, or guesses."""
        name = getattr(node, "name", "")
        maker = self._maker(path, name)
        if maker is not None:
            return lambda: (self._unpacked(self.machine.call(maker, [], {}, node)), {})
        if node in self.machine.observed and not isinstance(path[0], ast.ClassDef):
            args, kwargs = self.machine.observed[node]
            return lambda: ([_renewed(each) for each in args], {key: _renewed(each) for key, each in kwargs.items()})
        guessed = self._guessed(node)
        return lambda: guessed

    def _maker(self, path: list[ast.AST], name: str) -> Value | None:
        names = [f"inputs_{name}", f"{name}_inputs", *_SAMPLES]
        places: list[dict[Any, Value]] = []
        if isinstance(self.built, Mapping):
            places.append(self.built.slots)
        if len(path) > 1 and isinstance(path[0], (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = [made[-1].scope.slots for made in self.machine.created.values() if made and made[-1].node is path[1]]
            places += inner
        places.append(self.project.main.scope.slots)
        for slots in places:
            for each in names:
                found = slots.get(each)
                if isinstance(found, (Function, Partial, Bound)) or (
                    isinstance(found, Instance) and found.cls.find("__call__")
                ):
                    return found
        return None

    def _unpacked(self, made: Value) -> list[Value]:
        if isinstance(made, Sequence) and made.items is not None:
            return list(made.items)
        return [made]

    def _guessed(self, node: ast.AST) -> tuple[list[Value], dict[str, Value]]:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return [Tensor()], {}
        positional = [*node.args.posonlyargs, *node.args.args]
        method = bool(positional) and positional[0].arg in {"self", "cls", "ctx"}
        args = [guess(each, node) for each in positional[method:]]
        return args, {each.arg: guess(each, node) for each in node.args.kwonlyargs}

    # Rounds -----------------------------------------------------------------------------------------------------------

    def _rounds(self, entry: Value, node: ast.AST, samples: Callable[[], tuple[list[Value], dict[str, Value]]]) -> None:
        """Warm up, then capture: what changes between the last two calls is frozen in the graph."""
        machine = self.machine
        if machine.summaries is not None:
            for turn in range(_WARM_UPS + 2):
                machine.summaries.pop((node, turn), None)
        before: list[object] = []
        for turn in range(_WARM_UPS + 1):
            last = turn == _WARM_UPS or (turn and not machine.dirty and not self._varied)
            machine.begin_round(report=False)
            args, kwargs = samples()
            self._note_arguments(args, kwargs)
            machine.torch.inputs = {
                memory for each in (*args, *kwargs.values()) for tensor in tensors_in(each) for memory in tensor.storages
            }
            before.append((args, kwargs))
            machine.reporting = bool(last)
            machine.inside = True
            result = self._call(entry, args, kwargs, node)
            if last:
                machine.finish_round(result)
            machine.inside = machine.reporting = False
            if last:
                return

    def _note_arguments(self, args: list[Value], kwargs: dict[str, Value]) -> None:
        """Remember which Python arguments differ from those of the call before."""
        syms = tuple(each.sym if isinstance(each, Host) else None for each in (*args, *kwargs.values()))
        self.changed = [place for place, (now, then) in enumerate(zip(syms, self._argument_syms, strict=False)) if now != then]
        self._varied = self._varied or bool(self.changed) or not self._argument_syms
        self._argument_syms = syms

    def _call(self, entry: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """Call the captured function; arguments that change are marked by name."""
        machine = self.machine
        if self.changed and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
            names = names[1:] if names[:1] in (["self"], ["cls"]) else names
            machine.varying = (node, frozenset(names[place] for place in self.changed if place < len(names)))
        return machine.call(entry, args, kwargs, node)

    # Scripts ----------------------------------------------------------------------------------------------------------

    def script(self, *, program: bool = False) -> None:
        """Run the module, as `program` at any length; each capture on the way is read."""
        self.machine.torch.script = True
        self._guarded(lambda: self.machine.load(self.project.main, program=program), program=True)
        self._pools(self._kept())

    def run_root(self, root: list[ast.AST]) -> None:
        """Run the module, then a function that nobody in the file calls and that captures."""
        self.script()
        self._guarded(lambda: self._run_root(root), program=True)

    def _run_root(self, root: list[ast.AST]) -> None:
        machine = self.machine
        node = root[-1]
        machine.frames[:] = [Frame(self.project.main, self.project.main.scope, "<module>")]
        if len(root) > 1 and isinstance(root[0], ast.ClassDef):
            cls = self._class_of(root[0]) if getattr(node, "name", "") == "__init__" else None
            instance = self._instance(root[0]) if cls is None else self._made_up(cls)
            machine.frames[:] = [Frame(self.project.main, self.project.main.scope, "<module>")]
            found = (
                instance.cls.find(node.name) if instance and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
            )
            if (
                instance
                and found
                and isinstance(found[1], Function)
                and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                and cls is None  # else it has been called
            ):
                guesses = self._guesses(node, found[1])
                guesses.pop("self", None)
                self._pools(self._kept(instance, machine.call(Bound(instance, found[1]), [], guesses, node)))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = self.project.main.scope.slots.get(node.name)
            plain = machine.created.get(node)
            if function is not None and plain:
                self._pools(self._kept(machine.call(function, [], self._guesses(node, plain[-1]), node)))
        machine.frames.clear()

    def _with_graph(self, context: Object, node: ast.AST, body: Callable[[Value], int], statement: ast.AST) -> int:
        """A `with torch.cuda.graph(...)` that the script reaches."""
        machine = self.machine
        state = machine.torch
        self._pools(self._kept())
        repeated = id(statement) in self.done
        self.done.add(id(statement))
        region = Region(machine.frame.module.path, getattr(statement, "lineno", 1), machine.frame.function, "torch.cuda.graph")
        if region not in self.regions:
            self.regions.append(region)
        self._around(node, statement, repeated=repeated)
        scope = machine.frame.scope
        saved, warm, left = dict(scope.slots), set(state.warm), state.gradients_left
        state.zeroed, state.backward_at, state.lazy = False, None, []
        machine.firsts = {}
        for turn in range(2):
            self._round(context, body, scope, saved, report=False)
            machine.firsts = machine.firsts if machine.firsts or turn else dict(machine.fresh_state)
            if not machine.dirty:
                break
        status = self._round(context, body, scope, saved, report=True, node=node)
        self._after_capture(context, node, warm, left=left, before=saved)
        return status

    def _round(
        self,
        context: Object,
        body: Callable[[Value], int],
        scope: Scope,
        saved: dict[Any, Value],
        *,
        report: bool,
        node: ast.AST | None = None,
    ) -> int:
        machine = self.machine
        machine.begin_round(report=report)
        scope.made = machine.round
        scope.slots.clear()
        scope.slots.update(saved)
        machine.inside = True
        status = body(context)
        if node is not None:
            machine.finish_round(Value())
        machine.inside = machine.reporting = False
        return status

    def _after_capture(self, context: Object, node: ast.AST, warm: set[str], *, left: bool, before: dict[Any, Value]) -> None:
        """Hazards that show only when the whole capture is known; and what its replays will go on reading."""
        machine = self.machine
        state = machine.torch
        cold = sorted(each for each in state.cold - warm)
        if cold:
            message = f"{', '.join(cold)} runs for the first time inside this capture: nothing here was called before it"
            machine.add("CG404", *machine.site(node), message, ())
        state.warm |= state.cold
        for storages, place in machine.firsts.values():
            if storages & machine.updated:
                machine.add(
                    "CG310", *place, "this tensor is made in the capture and changed in place: each replay makes it anew", ()
                )
        for place in state.lazy:
            machine.add("CG310", *place, "this lazy layer makes its weights in the capture: each replay draws them anew", ())
        for block, site in state.autocasts if state.trained & machine.used else ():
            message = "this block keeps casts of weights from before the capture: the graph reads those old copies"
            machine.add("CG607", *site, message, (), edits.keyword(block.call, "cache_enabled", "False"))
        if state.backward_at is not None and left and not state.zeroed:
            self.accumulating = state.backward_at
        self._remember(context, node, before)

    def _around(self, node: ast.AST, statement: ast.AST, *, repeated: bool) -> None:
        """Hazards of the capture itself: in the step loop."""
        machine = self.machine
        machine.inside = machine.reporting = True
        loop = _loop_with_replay(machine.frame.module.tree, statement)
        if loop:
            machine.report(
                "CG409", node, "this capture is repeated with every step of the loop, which costs more than it saves"
            )
        elif repeated and _replays(machine.frame, statement):
            machine.report(
                "CG409", node, "this helper captures anew at every call and replays once, which costs more than it saves"
            )
        machine.inside = machine.reporting = False

    def _kept(self, *results: Value) -> list[Value]:
        """What is alive at this moment: running calls, modules, results."""
        return [*(frame.scope for frame in self.machine.frames), *(each.scope for each in self.project.modules()), *results]

    def _leaving(self, frame: Frame) -> None:
        """A call ends in which something was captured: what do its own names hold?"""
        if frame in self.open:
            self._pools([each for each in frame.scope.slots.values() if each is not frame.receiver])

    def _pools(self, roots: list[Value], *, several: bool = False) -> None:
        """Report captures with a memory pool of their own while an earlier graph is kept too."""
        if not any(each.site for each in self.captured[1:]):
            return
        alive = reachable(roots, several=several) | ({id(self.captured[-1].graph)} if several else set())
        for each in [each for each in self.captured if id(each.graph) in alive][1:]:
            if each.site is not None and (*each.site[:2], "CG409") not in self.machine.findings:
                message = "this graph gets a memory pool of its own beside the others': pass pool=first.pool()"
                self.machine.add("CG505", *each.site, message, each.via)

    def _remember(self, graph: Object, node: ast.AST, before: dict[Any, Value]) -> None:
        """What replays of this capture will go on reading, by the slots that the script has for it."""
        machine = self.machine
        slots = {
            slot: (holder, key, storages, machine.bound_at.get(slot))
            for slot, (holder, key, storages) in machine.region_reads.items()
            if storages & machine.used and not storages & machine.born
        }
        del before
        state = machine.torch
        owner = graph.args[0] if graph.args else graph.kwargs.get("cuda_graph")
        pooled = machine.quiet or "pool" in graph.kwargs or len(graph.args) > 1
        self.captured = [each for each in self.captured if each.graph is not owner]
        self.pending = []
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
        self._pools(self._kept(), several=True)

    # What a script does after its capture -----------------------------------------------------------------------------

    def _keeping(self, machine: Machine, owner: Sequence, new: Value, node: ast.AST) -> None:
        if machine.inside or not self.captured or isinstance(new, Sequence):
            return
        if self._born(new):
            self._later("CG308", node, f"{quoted(node)} keeps an output of the graph, which the next replay overwrites")
        del owner

    def _born(self, new: Value) -> bool:
        born = {memory for each in self.captured if id(each.graph) in self.replayed for memory in each.born}
        born |= {
            memory for each in self.machine.torch.outputs.values() for tensor in tensors_in(each) for memory in tensor.storages
        }
        return any(tensor.storages & born and tensor.on_gpu for tensor in tensors_in(new))

    def _setting(self, machine: Machine, owner: Value, name: str, new: Value, node: ast.AST) -> None:
        if machine.inside or not self.captured:
            return
        if isinstance(owner, Tensor) and name == "data" and self._reads(owner):
            self._later("CG305", node, f"{quoted(node)} gets new memory after the capture; replays go on reading the old")
        elif isinstance(owner, Tensor) and name == "grad" and isinstance(new, Host) and new.value is None:
            self.accumulating = None
            if self._needs_gradients([owner]):
                self._later("CG307", node, f"{quoted(node)} = None drops the gradient that the graph writes to")
        elif isinstance(owner, (Instance, Object)) and isinstance(new, Tensor) and new.parameter:
            old = owner.slots.get(name)
            if isinstance(old, Tensor) and self._reads(old):
                self._later(
                    "CG305", node, f"{quoted(node)} is replaced after the capture; replays go on reading the old parameter"
                )
        elif isinstance(owner, Mapping) and isinstance(new, Tensor) and self._born(new):
            self._later("CG308", node, f"{quoted(node)} keeps an output of the graph, which the next replay overwrites")

    def _needs_gradients(self, parameters: list[Tensor]) -> bool:
        """Whether a captured backward writes gradients of these that somebody besides graphs goes on using, or into old memory."""
        stepped = {memory for each in self.captured for memory in each.stepped}
        return any(
            each.backward and parameter.storages & each.used and not (each.own and parameter.storages & stepped)
            for each in self.captured
            for parameter in parameters
        )

    def _calling(
        self, machine: Machine, owner: Value, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> None:
        if machine.inside:
            return
        if name == "replay":
            self._replayed(owner)
        elif name == "make_graphed_callables":
            self._graphed(owner, args, kwargs, node)
        elif name == "compile":
            mode = kwargs.get("mode")
            if isinstance(mode, Host) and mode.value == "reduce-overhead":
                self._compiled_at(machine.frame.module.path, node)
        elif name == "graphed" and isinstance(owner, Partial):
            self._call_of_graphed(owner, node)
        elif self.captured and name in {"load_state_dict", "zero_grad", "to", "half", "double", "bfloat16", "float"}:
            self._module_changed(owner, name, kwargs, args, node)

    def _module_changed(self, owner: Value, name: str, kwargs: dict[str, Value], args: list[Value], node: ast.AST) -> None:
        owned = self._parameters(owner)
        if not any(self._reads(each) for each in owned):
            return
        if name == "load_state_dict":
            given = kwargs.get("assign")
            if isinstance(given, Host) and given.value is True:
                self._later("CG305", node, f"{quoted(node)} replaces parameters; replays go on reading the old ones")
        elif name == "zero_grad":
            self.accumulating = None
            trained = [each for each in owned if each.parameter != "buffer" and not each.frozen]
            if self.machine.library.drops_gradients(args, kwargs) and self._needs_gradients(trained):
                edit = edits.keyword(node, "set_to_none", "False")
                self._later("CG307", node, f"{quoted(node)} drops the gradients that the graph writes to", edit)
        elif name in {"half", "double", "bfloat16"} or any(
            isinstance(each, Host) and each.kind == "dtype" for each in (*args, *kwargs.values())
        ):
            self._later("CG305", node, f"{quoted(node)} gives parameters new memory; replays go on reading the old")

    def _parameters(self, owner: Value) -> list[Tensor]:
        """The tensors of this module or optimizer."""
        return self.machine.library.parameters_of(owner) or self.machine.library.tensors_of(self.machine, owner)

    def _reads(self, tensor: Tensor) -> bool:
        return any(tensor.storages & each.used for each in self.captured)

    def _later(self, hazard: str, node: ast.AST, message: str, edit: Edit | None = None) -> None:
        self.pending.append((hazard, self.machine.site(node), message, edit))

    def _reading(self, slot: tuple[int, Any], value: Value) -> Value:
        """A name is read after a capture: does it hold an output that a replay since has overwritten?"""
        kept = self.kept.get(slot)
        if kept is not None and kept[0] is value and self.replays > kept[1]:
            self.machine.add(
                "CG308", *kept[2], "this name keeps an output of the graph over the next replay, which overwrites it", ()
            )
        return value

    def _binding(self, slot: tuple[int, Any], value: Value, node: ast.AST) -> None:
        if self.captured and isinstance(value, Tensor) and self._born(value):
            self.kept[slot] = (value, self.replays, self.machine.site(node))

    def _replayed(self, graph: Value) -> None:
        """A replay follows: what was done since the capture matters."""
        machine = self.machine
        self.replays += 1
        if id(graph) not in self.replayed:
            self.replayed.add(id(graph))
            self._pools(self._kept())
        for each in self.captured:
            if each.graph is not graph:
                continue
            for slot, (holder, key, storages, bound) in each.slots.items():
                now = holder.slots.get(key)
                where = machine.bound_at.get(slot)
                if isinstance(now, Tensor) and not now.storages & storages and where is not None and where != bound:
                    message = f"`{key}` is bound to a new tensor after the capture; replays go on reading the old one"
                    machine.add("CG304", *where, message, ())
        for hazard, place, message, edit in self.pending:
            machine.add(hazard, *place, message, (), edit)
        self.pending.clear()
        machine.torch.inflight |= machine.torch.downloads
        if self.accumulating is not None and self.replays > 1:
            message = "this backward adds to gradients that were there before the capture, and nothing sets them to zero between replays"
            machine.add("CG307", *self.accumulating, message, ())

    def _call_of_graphed(self, owner: Partial, node: ast.AST) -> None:
        """A graphed callable is called: a replay, if its module is in the mode of the capture."""
        self.replays += 1
        modes = self.modes.get(id(owner.function))
        now = owner.function.slots.get("training") if isinstance(owner.function, Holder) else None
        place = self.machine.torch.mode_at.get(id(owner.function))
        if modes is not None and isinstance(now, Host) and place is not None and now.known and now.value != modes:
            self.machine.add(
                "CG309",
                *place,
                "the module is called in another mode than it was graphed in: that runs eagerly, without a graph",
                (),
            )
        for hazard, where, message, edit in self.pending:
            self.machine.add(hazard, *where, message, (), edit)
        self.pending.clear()
        del node

    def _graphed(self, given: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> None:
        """`make_graphed_callables(callables, sample_args)`: each callable is captured with its samples."""
        machine = self.machine
        first = id(node) not in self.done
        self.done.add(id(node))
        if first:
            self.regions.append(
                Region(machine.frame.module.path, getattr(node, "lineno", 1), machine.frame.function, "make_graphed_callables")
            )
        samples = args[1] if len(args) > 1 else kwargs.get("sample_args", Value())
        several = isinstance(given, Sequence)
        callables = given.each() if isinstance(given, Sequence) else [given]
        for place, each in enumerate(callables):
            items = samples.items if isinstance(samples, Sequence) and samples.items is not None else []
            mine = items[place] if several and place < len(items) else samples
            inner: list[Value] = [mine if isinstance(mine, Tensor) else Tensor()]
            if isinstance(mine, Sequence) and mine.items is not None:
                inner = list(mine.items)
            self._graph_one(each, inner, node)

    def _graph_one(self, function: Value, args: list[Value], node: ast.AST) -> None:
        machine = self.machine
        self._graphed_hazards(function, node)
        if isinstance(function, Holder):
            mode = function.slots.get("training")
            self.modes[id(function)] = mode.value if isinstance(mode, Host) and mode.known else True
        machine.torch.graphing = True
        for report in (False, True):
            machine.begin_round(report=report)
            machine.inside = True
            result = machine.call(function, args, {}, node)
            if report:
                machine.finish_round(result)
            machine.inside = machine.reporting = False
        machine.torch.graphing = False

    def _graphed_hazards(self, function: Value, node: ast.AST) -> None:
        machine = self.machine
        machine.inside = machine.reporting = True
        if machine.torch.hooks.get(id(function)):  # torch looks at the callable itself: hooks of its parts are captured
            machine.report("CG411", node, f"{quoted(node)} gets a module with hooks: register them after it")
        if isinstance(function, Object) and function.name.endswith("DistributedDataParallel"):
            machine.report("CG708", node, f"{quoted(node)} gets a module that DistributedDataParallel wraps: graph it before")
        machine.inside = machine.reporting = False

    # Compiled functions -----------------------------------------------------------------------------------------------

    def compiled(self) -> None:
        """Note what `torch.compile(mode="reduce-overhead")` captures: it splits its graphs where this file reads the host."""
        for node in ast.walk(self.project.main.tree):
            if isinstance(node, ast.Call) and _is_reduce_overhead(node):
                self._compiled_at(self.project.main.path, node)

    def _compiled_at(self, path: str, node: ast.AST) -> None:
        region = Region(path, getattr(node, "lineno", 1), "torch.compile", "reduce-overhead")
        if region not in self.regions:
            self.regions.append(region)


def _is_reduce_overhead(node: ast.Call) -> bool:
    mode = next((each.value for each in node.keywords if each.arg == "mode"), None)
    return isinstance(mode, ast.Constant) and mode.value == "reduce-overhead"


def _renewed(found: Value) -> Value:
    if isinstance(found, Tensor):
        new = found.view(found.ndim)
        new.storages = frozenset((fresh(),))
        new.first = found.first
        return new
    return found


@lru_cache(maxsize=4000)
def _names_in(node: ast.AST) -> set[str]:
    """Names and attributes that a piece of code mentions; asked again for each function of a file."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} | {
        each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)
    }


def captures(tree: ast.Module) -> list[list[ast.AST]]:
    """Paths of functions and classes down to each statement or call that may capture."""
    found: list[list[ast.AST]] = []
    waiting: list[tuple[ast.AST, list[ast.AST]]] = [(tree, [])]
    while waiting:
        node, path = waiting.pop()
        for child in ast.iter_child_nodes(node):
            inner = [*path, child] if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else path
            if isinstance(child, (ast.With, ast.AsyncWith)) and any(
                _ends_in(item.context_expr, "graph") for item in child.items
            ):
                found.append([*path, child])
            if isinstance(child, ast.Call) and _ends_in(child, "make_graphed_callables"):
                found.append([*path, child])
            waiting.append((child, inner))
    return sorted(found, key=lambda each: getattr(each[-1], "lineno", 0))


def _ends_in(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (isinstance(function, ast.Attribute) and function.attr == name) or (
        isinstance(function, ast.Name) and function.id == name
    )


def _loop_with_replay(tree: ast.Module, statement: ast.AST) -> bool:
    """Whether a capture stands, unguarded, in a loop that also replays."""
    for loop in ast.walk(tree):
        if not isinstance(loop, (ast.For, ast.While)):
            continue
        if not _directly_in(loop.body, statement):
            continue
        if any(isinstance(each, ast.Call) and _ends_in(each, "replay") for each in ast.walk(loop)):
            return True
    return False


def _replays(frame: Frame, statement: ast.AST) -> bool:
    """Whether the function that captures replays too."""
    for each in ast.walk(frame.module.tree):
        if (
            isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
            and each.name == frame.function
            and _directly_in(each.body, statement)
        ):
            return any(isinstance(call, ast.Call) and _ends_in(call, "replay") for call in ast.walk(each))
    return False


def _builders(tree: ast.Module, classes: set[str]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions of the module that may make objects of these classes: they mention one, or something that does."""
    defined = {each.name: each for each in tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    words = {name: _names_in(each) for name, each in defined.items()}
    reaching = set(classes)
    while more := {name for name, said in words.items() if said & reaching} - reaching:
        reaching |= more
    found = [
        each for name, each in defined.items() if name in reaching and isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return sorted(found, key=lambda each: not words[each.name] & classes)[:6]


def roots(tree: ast.Module, done: set[int]) -> list[list[ast.AST]]:
    """Functions and methods from which a capture is reached, and that no other function of the file refers to."""
    reaching = {each.name for path in captures(tree) if id(path[-1]) not in done for each in path[:-1] if hasattr(each, "name")}
    tops: list[ast.AST] = [
        each for each in tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    named = {getattr(each, "name", ""): each for each in tops}
    mentions = {name: _names_in(each) for name, each in named.items()}
    while True:
        more = {name for name, words in mentions.items() if words & reaching} - reaching
        if not more:
            break
        reaching |= more
    found: list[list[ast.AST]] = []
    for name, each in named.items():
        if name not in reaching or any(name in words for other, words in mentions.items() if other != name):
            continue
        if isinstance(each, ast.ClassDef):
            found += _methods_that_reach(each, reaching)
        else:
            found.append([each])
    return found


def nearest(tree: ast.Module, done: set[int]) -> list[list[ast.AST]]:
    """Functions and methods that hold a capture themselves."""
    found = []
    for path in captures(tree):
        methods = 2 if isinstance(path[0], ast.ClassDef) else 1
        if id(path[-1]) not in done and len(path) > methods and path[:methods] not in found:
            found.append(path[:methods])
    return found


def _methods_that_reach(owner: ast.ClassDef, reaching: set[str]) -> list[list[ast.AST]]:
    methods = [each for each in owner.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    wanted = [each for each in methods if each.name in reaching and each.name != "__init__"]
    called = {word for each in methods for word in _names_in(each)}
    return [[owner, each] for each in wanted if each.name not in called] or [[owner, each] for each in wanted]


def _directly_in(body: list[ast.stmt], statement: ast.AST) -> bool:
    for each in body:
        if each is statement:
            return True
        if isinstance(each, (ast.With, ast.Try)) and _directly_in(each.body, statement):
            return True
    return False


# Arguments that nobody gives ------------------------------------------------------------------------------------------


def guess(argument: ast.arg, node: ast.AST) -> Value:
    """What an argument is likely to be: by its annotation, by how the body uses it, by its name."""
    if argument.annotation is not None:
        annotated = _annotated(argument.annotation)
        if annotated is not None:
            return annotated
    used = _uses(node).get(argument.arg, set())
    if used & _SURE or (argument.arg in _TENSOR_NAMES and (used & _TENSOR_ATTRIBUTES or "argument" in used)):
        made = Tensor()
        made.optional = True
        return made
    return Value()


def takes_tensors(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function seems to take tensors, alone or in a list."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return any(tensors_in(guess(each, node)) for each in arguments)


def _annotated(annotation: ast.expr) -> Value | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            return None
    words = [
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(annotation)
        if isinstance(each, (ast.Name, ast.Attribute))
    ]
    tensors = [word for word in words if word.endswith("Tensor") and word != "PackedTensor"]
    optional = "Optional" in words or any(
        isinstance(each, ast.Constant) and each.value is None for each in ast.walk(annotation)
    )
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = outer.attr if isinstance(outer, ast.Attribute) else outer.id if isinstance(outer, ast.Name) else ""
    if (
        tensors
        and name in {"list", "List", "tuple", "Tuple", "Sequence", "Iterable", "Optional", "Union"}
        and name not in {"Optional", "Union"}
    ):
        return Sequence("list", None, 0, _tensor(tensors[0]))
    if tensors and not {"dict", "Dict", "Mapping", "list", "List", "tuple", "Tuple", "Callable", "Sequence"} & set(words):
        made = _tensor(tensors[0])
        made.optional = optional
        others = {"int", "float", "bool", "str", "Number"} & set(words)
        return Value() if others else made
    kinds = {"int": "int", "float": "float", "bool": "bool", "str": "str"}
    if name in kinds:
        return number() if name in {"int", "float"} else Host(kinds[name])
    return None


def _tensor(word: str) -> Tensor:
    dtype = {"LongTensor": "int", "IntTensor": "int", "BoolTensor": "bool", "FloatTensor": "float"}.get(word, "")
    return Tensor("cuda", None, dtype)


_USES: dict[ast.AST, dict[str, set[str]]] = {}


def _uses(node: ast.AST) -> dict[str, set[str]]:
    """For each name in a function: attributes that are read of it, and `argument` where a call gets it."""
    known = _USES.get(node)
    if known is not None:
        return known
    found: dict[str, set[str]] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            found.setdefault(each.value.id, set()).add(each.attr)
        elif isinstance(each, ast.Call):
            for argument in each.args:
                if isinstance(argument, ast.Name):
                    found.setdefault(argument.id, set()).add("argument")
        elif isinstance(each, ast.BinOp) and isinstance(each.op, ast.MatMult):
            for side in (each.left, each.right):
                if isinstance(side, ast.Name):
                    found.setdefault(side.id, set()).add("matmul")
    _USES[node] = found
    return found
