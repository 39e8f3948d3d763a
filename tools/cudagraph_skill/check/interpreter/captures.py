"""Read one file: build what its code builds, find what is captured, and run that as a warm-up and as a capture."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check import edits
from cudagraph_skill.check.findings import Region
from cudagraph_skill.check.interpreter import syntax
from cudagraph_skill.check.interpreter.attributes import Later
from cudagraph_skill.check.interpreter.capture_sites import (
    Definition,
    Path,
    begins,
    compiles_with_graphs,
    is_reduce_overhead,
    loops_with_replay,
    replays,
    spans,
)
from cudagraph_skill.check.interpreter.entry_points import Arguments, EntryPoints
from cudagraph_skill.check.interpreter.frames import NEXT, Exhausted
from cudagraph_skill.check.interpreter.goals import Goal
from cudagraph_skill.check.interpreter.iteration import run_generator
from cudagraph_skill.check.interpreter.language import PYTHON
from cudagraph_skill.check.interpreter.machine import Machine
from cudagraph_skill.check.interpreter.replays import Replays
from cudagraph_skill.check.interpreter.unfollowed import note_unfollowed
from cudagraph_skill.check.interpreter.values import (
    Bound,
    Function,
    Holder,
    Host,
    Instance,
    Object,
    Scope,
    Sequence,
    Tensor,
    Value,
    quoted,
    tensors_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.input.modules import Project
    from cudagraph_skill.check.interpreter.frames import Site
    from cudagraph_skill.check.interpreter.library import Library

_WARM_UPS = 3  # a value that changes at the first calls only, such as a cache that fills, has settled by then


class Reader:
    """Reads one file; the findings are the machine's."""

    def __init__(self, project: Project, library: Library[Machine], budget: int = 200_000) -> None:
        self.project = project
        self.machine = Machine(project, PYTHON, library, budget)
        self.entry_points = EntryPoints(self.machine)
        self.replays = Replays(self.machine)
        self.machine.region_hook = self._with_graph
        self.machine.torch.calling = self._on_call
        self.regions: list[Region] = []
        self.done: set[int] = set()  # ids of statements and calls whose capture was read
        self._sites: set[int] = set()  # ids of the statement or call that captures what is being read
        self.reading: Region | None = None  # what is captured by the code that is being read
        self.whole: list[Region] = []  # those that were read to their end
        self.cut: dict[Region, str] = {}  # those that were not, and why
        self.unfollowed: dict[Region, dict[str, Site]] = {}  # what those call without its code being here
        self.compiled_functions: dict[Region, list[Value]] = {}  # what torch.compile gets that it is to graph
        self.program_exhausted = False  # the code around it is
        # Which Python arguments of the captured function differ from call to call
        self._changed: list[int] = []
        self._varied = False
        self._argument_syms: tuple[object, ...] = ()

    def _guarded(self, run: Callable[[], object], *, program: bool = False) -> None:
        try:
            run()
        except (Exhausted, RecursionError) as error:
            around = self.reading is None and program and error.args == (False,)
            self.program_exhausted = self.program_exhausted or around
            if self.reading is not None:
                self.cut[self.reading] = "it is longer than this check reads; what stands behind that was not looked at"
                self.done -= self._sites  # another way to it may be shorter
                self.reading = None
            # What was found stays; the next function of the file starts from the top level.
            self.machine.frames.clear()
            self.machine.control.clear()
            self.machine.inside = self.machine.reporting = False
            self.machine.quiet = 0

    def _begin(self, region: Region) -> None:
        """Note that a capture is being read."""
        if region not in self.regions:
            self.regions.append(region)
        self.reading = region

    def _end(self) -> None:
        """Note that it was read to its end."""
        if self.reading is not None:
            self.whole.append(self.reading)
            self.unfollowed.setdefault(self.reading, {}).update(self.machine.unfollowed)
        self.machine.unfollowed = {}
        self.reading = None

    # A function that the user named -----------------------------------------------------------------------------------

    def named(self, qualname: str, path: list[ast.AST], how: str = "named") -> None:
        """Read one function or class as captured code."""
        region = Region(self.project.main.path, getattr(path[-1], "lineno", 1), qualname, how)
        self.regions.append(region)
        self.reading = region
        self._guarded(lambda: self._named(path))
        self._end()

    def _named(self, path: list[ast.AST]) -> None:
        self.machine.load(self.project.main)
        self.entry_points.build(path)
        entry, node = self.entry_points.entry(path)
        if entry is None or node is None:
            if self.reading is not None:
                self.cut[self.reading] = "what it is defined in could not be followed to its definition"
            self.reading = None
            return
        self.entry_points.enter_module()
        # Names that the call makes are not those of the module.
        self.machine.frame.scope = Scope(0, None, self.project.main.scope)
        self.machine.named = True
        try:
            self._rounds(entry, node, self.entry_points.samples(path, node))
        finally:
            self.machine.frames.clear()

    def _rounds(self, entry: Value, node: ast.AST, samples: Callable[[], Arguments]) -> None:
        """Warm up, then capture: what changes between the last two calls is frozen in the graph."""
        machine = self.machine
        if machine.summaries is not None:
            # Another function may have called this one: here it is followed itself.
            for turn in range(_WARM_UPS + 2):
                machine.summaries.pop((node, turn), None)
        for turn in range(_WARM_UPS + 1):
            clean = bool(turn) and not machine.dirty
            machine.begin_round(report=False)
            args, kwargs = samples()
            self._note_arguments(args, kwargs)
            # Where the first call left nothing behind, the next ones would show the same.
            last = turn == _WARM_UPS or (clean and not self._varied)
            machine.torch.inputs = {
                memory for value in (*args, *kwargs.values()) for tensor in tensors_in(value) for memory in tensor.storages
            }
            # The samples are made outside of the capture, so reporting starts only now.
            machine.reporting = last
            machine.inside = True
            result = self._call(entry, args, kwargs, node)
            if last:
                machine.finish_round(result)
            machine.inside = machine.reporting = False
            if last:
                return

    def _note_arguments(self, args: list[Value], kwargs: dict[str, Value]) -> None:
        """Note which Python arguments differ from those of the call before."""
        syms = tuple(value.sym if isinstance(value, Host) else None for value in (*args, *kwargs.values()))
        pairs = zip(syms, self._argument_syms, strict=False)
        self._changed = [place for place, (now, then) in enumerate(pairs) if now != then]
        self._varied = self._varied or bool(self._changed)
        self._argument_syms = syms

    def _call(self, entry: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """Call the captured function; arguments that change are marked by name."""
        machine = self.machine
        if self._changed and isinstance(node, Definition):
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            names = names[1:] if names[:1] in (["self"], ["cls"]) else names
            machine.varying = (node, frozenset(names[place] for place in self._changed if place < len(names)))
        return machine.call(entry, args, kwargs, node)

    # Scripts ----------------------------------------------------------------------------------------------------------

    def script(self, *, program: bool = False) -> None:
        """Run the module, as `program` at any length; each capture on the way is read."""
        self._load(program=program)
        self._guarded(self.replays.frozen.report)

    def _load(self, *, program: bool = False) -> None:
        self.machine.torch.script = True
        self._guarded(lambda: self.machine.load(self.project.main, program=program), program=True)
        self._report_pools()

    def run_root(self, root: list[ast.AST]) -> None:
        """Run the module, then a function that nobody in the file calls and that captures."""
        self._load()
        self._guarded(lambda: self._run_root(root), program=True)
        self._guarded(self.replays.frozen.report)

    def _run_root(self, root: list[ast.AST]) -> None:
        self.entry_points.enter_module()
        node = root[-1]
        if isinstance(node, Definition) and len(root) > 1 and isinstance(root[0], ast.ClassDef):
            self._run_method(root[0], node)
        elif isinstance(node, Definition):
            function = self.project.main.scope.slots.get(node.name)
            made = self.machine.created.get(node)
            if function is not None and made:
                self._report_pools(self.machine.call(function, [], self.entry_points.guesses(node, made[-1]), node))
        self.machine.frames.clear()

    def _run_method(self, owner: ast.ClassDef, node: Definition) -> None:
        cls = self.entry_points.class_of(owner) if node.name == "__init__" else None
        if cls is not None:
            self.entry_points.made_up(cls)  # calls it
            return
        instance = self.entry_points.instance(owner)
        self.entry_points.enter_module()
        member = instance.cls.find(node.name) if instance else None
        if instance and member and isinstance(member[1], Function):
            guesses = self.entry_points.guesses(node, member[1])
            guesses.pop("self", None)
            self._report_pools(instance, self.machine.call(Bound(instance, member[1]), [], guesses, node))

    def _note_read(self, site: ast.AST) -> None:
        """Note that a capture was read; where branches begin it differently, all of them are."""
        begun = [span.begins for span in spans(self.machine.frame.module.tree).values() if site in span.begins]
        self._sites = {id(node) for node in (site, *(begin for begins in begun for begin in begins))}
        self.done |= self._sites
        goal = self.machine.goal
        if goal is not None and id(goal.node) in self.done:
            goal.reached = True

    # A capture that the program does not reach ------------------------------------------------------------------------

    def aim(self, path: Path) -> None:
        """Take conditions to lead to a capture from now on."""
        self.machine.goal = Goal(self.project.main.tree, path)

    def run_definitions(self, definitions: Path, *, bare: bool = False) -> None:
        """Run the module, then the definitions around a capture, each with guessed arguments; `bare` objects are not initialized."""
        self._load()
        self._guarded(lambda: self._run_definitions(definitions, bare=bare), program=True)
        self._guarded(self.replays.frozen.report)

    def _run_definitions(self, definitions: Path, *, bare: bool) -> None:
        for place, node in enumerate(definitions):
            goal = self.machine.goal
            if not isinstance(node, Definition) or (goal is not None and goal.reached):
                continue
            owner = definitions[place - 1] if place else None
            self.entry_points.enter_module()
            if place == 1 and isinstance(owner, ast.ClassDef) and not bare:
                self._run_method(owner, node)
            elif node in self.machine.created:
                self._run_function(self.machine.created[node][-1], node)
            self.machine.frames.clear()

    def _run_function(self, function: Function, node: Definition) -> None:
        guesses = self.entry_points.guesses(node, function)
        if function.owner is not None and "staticmethod" not in function.marks and node.args.args:
            guesses[node.args.args[0].arg] = Instance(function.owner, 0)
        result = self.machine.call(function, [], guesses, node)
        if isinstance(result, Object) and result.name in {"generator", "contextmanager"}:
            run_generator(self.machine, result, lambda _: NEXT)

    def _report_pools(self, *results: Value) -> None:
        self.replays.report_pools(self.replays.alive(*results))

    def _with_graph(self, context: Object, node: ast.AST, body: Callable[[Value], int], statement: ast.AST) -> int:
        """Read a `with torch.cuda.graph(...)` that the script reaches."""
        machine = self.machine
        state = machine.torch
        self._report_pools()
        # The same statement again: in a loop, or in a helper that is called again.
        repeated = id(statement) in self.done
        self._note_read(statement)
        path, line, _ = machine.site(statement)
        self._begin(Region(path, line, machine.frame.function, "torch.cuda.graph"))
        self._report_repeated(node, statement, repeated=repeated)
        scope = machine.frame.scope
        saved, warm, left = dict(scope.slots), set(state.warm), state.gradients_left
        state.zeroed, state.backward_at, state.lazy = False, None, []
        state.capture_stream = _stream_of(context, node, state.streams)
        machine.firsts = {}
        # Two calls before the capture show what changes; a body that writes nothing needs only one.
        for turn in range(2):
            self._round(context, body, scope, saved, report=False)
            machine.firsts = machine.firsts if machine.firsts or turn else dict(machine.fresh_state)
            if not machine.dirty:
                break
        status = self._round(context, body, scope, saved, report=True)
        self._end()
        self._report_whole(node, warm)
        owner = self.replays.remember(context, node, gradients_left=left)
        self.replays.frozen.remember(owner, statement, lambda: body(context), saved)
        return status

    def _round(
        self, context: Object, body: Callable[[Value], int], scope: Scope, saved: dict[Any, Value], *, report: bool
    ) -> int:
        machine = self.machine
        machine.begin_round(report=report)
        # The body's own names are new in each round, as those of a called function would be.
        scope.made = machine.round
        scope.slots.clear()
        scope.slots.update(saved)
        machine.inside = True
        status = body(context)
        if report:
            machine.finish_round(Value())
        machine.inside = machine.reporting = False
        return status

    def _report_whole(self, node: ast.AST, warm: set[str]) -> None:
        """Report hazards that show only when the whole capture is known."""
        machine = self.machine
        state = machine.torch
        cold = sorted(state.cold - warm)
        if cold:
            message = f"{', '.join(cold)} runs for the first time inside this capture: nothing here was called before it"
            machine.add("CG404", *machine.site(node), message, ())
        state.warm |= state.cold
        for storages, place in machine.firsts.values():
            if storages & machine.updated:
                message = "this tensor is made in the capture and changed in place: each replay makes it anew"
                machine.add("CG310", *place, message, ())
        for place in state.lazy:
            machine.add("CG310", *place, "this lazy layer makes its weights in the capture: each replay draws them anew", ())
        for block, site in state.autocasts if state.trained & machine.used else ():
            message = "this block keeps casts of weights from before the capture: the graph reads those old copies"
            machine.add("CG607", *site, message, (), edits.keyword(block.call, "cache_enabled", "False"))

    def _report_repeated(self, node: ast.AST, statement: ast.AST, *, repeated: bool) -> None:
        """Report a capture that stands in the step loop."""
        machine = self.machine
        machine.inside = machine.reporting = True
        if loops_with_replay(machine.frame.module.tree, statement):
            machine.report(
                "CG409", node, "this capture is repeated with every step of the loop, which costs more than it saves"
            )
        elif repeated and replays(machine.frame, statement):
            machine.report(
                "CG409", node, "this helper captures anew at every call and replays once, which costs more than it saves"
            )
        machine.inside = machine.reporting = False

    # Calls outside of captures ----------------------------------------------------------------------------------------

    def _on_call(
        self, machine: Machine, owner: Value, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> None:
        if machine.inside:
            return
        if name in {"make_graphed_callables", "CudaGraphModule"}:
            self._graphed(name, owner, args, kwargs, node)
        elif name in {"compile", "compiled"}:
            self.done.add(id(node))
            if compiles_with_graphs(kwargs):
                region = self._compiled_at(machine.frame.module.path, node)
                function = owner.resolve(machine) if isinstance(owner, Later) else owner
                self.compiled_functions.setdefault(region, []).extend([function] * (name == "compiled"))
        else:
            self.replays.on_call(owner, name, args, kwargs, node)

    def _graphed(self, how: str, given: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> None:
        """Read `make_graphed_callables(callables, sample_args)`, or CudaGraphModule: each callable is captured with its samples."""
        self._note_read(node)
        path, line, _ = self.machine.site(node)
        self._begin(Region(path, line, self.machine.frame.function, how))
        samples = args[1] if len(args) > 1 else kwargs.get("sample_args", Value())
        if not isinstance(given, Sequence):
            guessed = type(samples) is Value and isinstance(given, Function)
            inputs = self.entry_points.guessed_inputs(given) if guessed else _inputs(samples)
            for _ in range(_WARM_UPS) if how == "CudaGraphModule" else ():  # its first calls are eager
                self.machine.call(given, inputs, {}, node)
            self._graph_one(given, inputs, node)
            self._end()
            return
        known = samples.items if isinstance(samples, Sequence) and samples.items is not None else []
        for place, function in enumerate(given.each()):
            self._graph_one(function, _inputs(known[place] if place < len(known) else samples), node)
        self._end()

    def _graph_one(self, function: Value, args: list[Value], node: ast.AST) -> None:
        machine = self.machine
        self._report_graphed(function, node)
        if isinstance(function, Holder):
            mode = function.slots.get("training")
            self.replays.modes[id(function)] = mode.value if isinstance(mode, Host) and mode.known else True
        # One warm-up and the capture: torch itself warms up on a side stream before it.
        machine.torch.graphing = True
        for report in (False, True):
            machine.begin_round(report=report)
            machine.inside = True
            note_unfollowed(machine, function, node.args[0] if isinstance(node, ast.Call) and node.args else node)
            result = machine.call(function, args, {}, node)
            if report:
                machine.finish_round(result)
            machine.inside = machine.reporting = False
        machine.torch.graphing = False
        self.replays.frozen.remember(function, node, lambda: machine.call(function, args, {}, node))

    def _report_graphed(self, function: Value, node: ast.AST) -> None:
        machine = self.machine
        machine.inside = machine.reporting = True
        if machine.torch.hooks.get(id(function)):  # torch looks at the callable itself: hooks of its parts are captured
            machine.report("CG411", node, f"{quoted(node)} gets a module with hooks: register them after it")
        if isinstance(function, Object) and function.name.endswith("DistributedDataParallel"):
            machine.report("CG708", node, f"{quoted(node)} gets a module that DistributedDataParallel wraps: graph it before")
        machine.inside = machine.reporting = False

    def compiled(self) -> None:
        """Note what `torch.compile(mode="reduce-overhead")` captures: it splits its graphs where this file reads the host."""
        for node in syntax.nodes(self.project.main.tree):
            if isinstance(node, ast.Call) and is_reduce_overhead(node):
                region = self._compiled_at(self.project.main.path, node)
                if not self.compiled_functions.get(region):  # nothing came there: it may be a function of the file by its name
                    self.compiled_functions[region] = self._named_there(node)

    def _named_there(self, node: ast.Call) -> list[Value]:
        """Return the function of the file that a call of torch.compile names."""
        own = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None  # `module.compile(mode=…)`
        named = node.args[0] if node.args else own
        value = self.project.main.scope.slots.get(named.id) if isinstance(named, ast.Name) else None
        return [value.resolve(self.machine) if isinstance(value, Later) else value] if value is not None else []

    def _compiled_at(self, path: str, node: ast.AST) -> Region:
        region = Region(path, getattr(node, "lineno", 1), "torch.compile", "reduce-overhead")
        if region not in self.regions:
            self.regions.append(region)
        return region

    def compiled_body(self, path: Path) -> bool:
        """Read a function that torch.compile graphs as captured code; return whether that came to its end."""
        self.machine.torch.compiling = True
        self._guarded(lambda: self.machine.load(self.project.main))  # a long program still defines the function
        self.named(".".join(getattr(node, "name", "") for node in path), path)
        return bool(self.whole)


def _stream_of(context: Object, node: ast.AST, current: list[tuple[Object, ast.AST]]) -> Object:
    """Return the stream that captures: that of `torch.cuda.graph(…, stream=…)`, else the current one for capture_begin, else torch's own."""
    given = context.kwargs.get("stream", context.args[2] if len(context.args) > 2 else None)
    if isinstance(given, Object):
        return given
    if isinstance(node, ast.Call) and begins(node) and current:
        return current[-1][0]
    return Object("torch.cuda.current_stream", [], {}, 0)


def _inputs(sample: Value) -> list[Value]:
    """Return the arguments that a sample stands for: a tuple of them, one tensor, or a tensor where nothing is known."""
    if isinstance(sample, Sequence) and sample.items is not None:
        return list(sample.items)
    return [sample if isinstance(sample, Tensor) else Tensor()]
