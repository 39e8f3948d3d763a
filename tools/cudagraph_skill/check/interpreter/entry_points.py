"""Find or build what a captured function needs to be called: its object, its closure, its arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.capture_sites import Definition, builders
from cudagraph_skill.check.interpreter.frames import Frame
from cudagraph_skill.check.interpreter.guesses import aliases_in, guess
from cudagraph_skill.check.interpreter.symbols import fresh
from cudagraph_skill.check.interpreter.values import (
    Array,
    Bound,
    Class,
    Function,
    Holder,
    Host,
    Instance,
    Mapping,
    Native,
    Partial,
    Sequence,
    Tensor,
    Value,
    const,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_SAMPLES = ("inputs", "get_inputs", "example_inputs", "sample_inputs", "make_inputs", "sample_args", "example_args")

Arguments = tuple[list[Value], dict[str, Value]]


class EntryPoints:
    """The objects that a file makes, or that are made up for it, and the arguments that its functions get."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.main = machine.project.main
        self._called: set[ast.AST] = set()
        self._built: Value | None = None  # what the function returned that makes the captured one

    def enter_module(self) -> None:
        """Begin a call from the top level of the file; the calls before it are over."""
        self.machine.frames[:] = [Frame(self.main, self.main.scope, "<module>")]
        if self.machine.torch.default_of_call:  # what a call left behind need not be what the next one finds
            self.machine.torch.default_device = ""

    def build(self, path: list[ast.AST]) -> None:
        """Run the functions that make the captured function or the objects that it is a method of."""
        outer = path[0]
        if len(path) > 1 and isinstance(outer, Definition):
            self._run_builder(outer)
        classes = {node.name for node in path if isinstance(node, ast.ClassDef)}
        # An object that a function of the file makes has the sizes and devices that its author means.
        for builder in builders(self.main.tree, classes) if classes else ():
            if builder is not outer:
                self._run_builder(builder)

    def _run_builder(self, node: Definition) -> None:
        function = self.main.scope.slots.get(node.name)
        if not isinstance(function, Function) or node in self._called:
            return
        self._called.add(node)
        self.enter_module()
        self._built = self.machine.call(function, [], self.guesses(node, function), node)
        self.machine.frames.clear()

    def guesses(self, node: Definition | ast.Lambda, function: Function) -> dict[str, Value]:
        """Return arguments of a function that nobody calls, by name; those with a default are left out."""
        guessed: dict[str, Value] = {}
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if argument.arg in {"device", "dev"}:
                guessed[argument.arg] = const("cuda")
            elif argument.arg not in function.defaults:
                guessed[argument.arg] = guess(argument, node, aliases_in(function.module.tree))
        return guessed

    def guessed_inputs(self, function: Value) -> list[Value]:
        """Return arguments of a callable for which no samples are known."""
        return self._guessed(function.node)[0] if isinstance(function, Function) else [Tensor()]

    # The callable -----------------------------------------------------------------------------------------------------

    def entry(self, path: list[ast.AST]) -> tuple[Value | None, ast.AST | None]:
        """Return the callable that a path of definitions leads to, and the function whose body it runs."""
        node = path[-1]
        if isinstance(node, ast.ClassDef):
            instance = self.instance(node)
            method = instance.cls.find("forward") or instance.cls.find("__call__") if instance else None
            return instance, method[1].node if method and isinstance(method[1], Function) else node
        owner = path[-2] if len(path) > 1 else None
        if isinstance(owner, ast.ClassDef):
            return self._method(owner, node), node
        made = self.machine.created.get(node)
        return (_decorated(made[-1]), node) if made else (None, None)

    def _method(self, owner: ast.ClassDef, node: ast.AST) -> Value | None:
        instance = self.instance(owner)
        name = getattr(node, "name", "")
        member = instance.cls.find(name) if instance is not None else None
        if instance is None or member is None:
            return None
        function = member[1]
        # Of several definitions of a name the class has the last; the one that was asked for may be another.
        if isinstance(function, Function) and function.node is not node and node in self.machine.created:
            function = self.machine.created[node][-1]
        if isinstance(function, Function) and "staticmethod" in function.marks:
            return function
        # Called through the object, `forward` gets the hooks of its module.
        if name in {"forward", "__call__"} and function is member[1]:
            return instance
        return Bound(instance, function)

    # The object -------------------------------------------------------------------------------------------------------

    def instance(self, node: ast.ClassDef) -> Instance | None:
        """Return an object of a class: one that the file makes, or one made up from the types of `__init__`."""
        made = [instance for instances in self.machine.instances.values() for instance in instances]
        exact = [instance for instance in made if instance.cls.node is node]
        derived = [instance for instance in made if any(base.node is node for base in instance.cls.line())]
        if exact or derived:
            return self._on_gpu((exact or derived)[-1])
        guessed = self.machine.project.guessed.get(node)
        cls = self.class_of(node) if guessed is None else None
        if cls is not None:
            guessed = self.made_up(cls)
            guessed.guessed = True
            self.machine.project.guessed[node] = guessed
        return guessed

    def _on_gpu(self, made: Instance) -> Instance:
        """Take a module to be moved to the GPU by code that is not here, where none of its weights is there; its parts may be."""
        weights = [tensor for tensor in self.machine.library.tensors_of(self.machine, made) if tensor.parameter]
        own = [tensor for tensor in made.slots.values() if isinstance(tensor, Tensor) and tensor.parameter]
        if all(tensor.device == "cpu" for tensor in own or weights):
            for tensor in weights:
                tensor.device = "cuda"
        return made

    def class_of(self, node: ast.ClassDef) -> Class | None:
        """Return the class that a definition at the top level, or in a class there, has made."""
        waiting: list[Value] = list(self.main.scope.slots.values())
        for value in waiting:
            if isinstance(value, Class):
                if value.node is node:
                    return value
                waiting += [inner for inner in value.slots.values() if isinstance(inner, Class)]
        return None

    def made_up(self, cls: Class) -> Instance:
        """Call a class with guessed arguments, and take its tensors to be on the GPU."""
        machine = self.machine
        self.enter_module()
        machine.library.complete(machine, cls)
        init = cls.find("__init__")
        kwargs: dict[str, Value] = {}
        if init and isinstance(init[1], Function):
            kwargs = self.guesses(init[1].node, init[1])
            names = init[1].node.args.posonlyargs + init[1].node.args.args
            if names:
                kwargs.pop(names[0].arg, None)  # self
        made = machine.call(cls, [], kwargs, cls.node)
        machine.frames.clear()
        if not isinstance(made, Instance):
            made = Instance(cls, 0)
        # A module is trained or evaluated, which nobody says here: what is for one of both is read as well.
        for module in machine.library.all_modules(machine, made):
            if isinstance(module, Holder) and "training" in module.slots:
                module.slots["training"] = Host("bool")
        for tensor in machine.library.tensors_of(machine, made):
            tensor.device = "cuda"
        return made

    # The arguments ----------------------------------------------------------------------------------------------------

    def samples(self, path: list[ast.AST], node: ast.AST) -> Callable[[], Arguments]:
        """Return what gives fresh arguments for each call: a function of the user's for that, a call that was seen, or guesses."""
        maker = self._maker(path, getattr(node, "name", ""))
        if maker is not None:
            return lambda: (_unpacked(self.machine.call(maker, [], {}, node)), {})
        method = isinstance(path[0], ast.ClassDef)
        if node in self.machine.observed and (self.machine.torch.compiling or not method):
            args, kwargs = self.machine.observed[node]
            args = args[method:]  # without `self`
            return lambda: ([_renewed(value) for value in args], {key: _renewed(value) for key, value in kwargs.items()})
        guessed = self._guessed(node)
        return lambda: guessed

    def _guessed(self, node: ast.AST) -> Arguments:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return [Tensor()], {}
        positional = [*node.args.posonlyargs, *node.args.args]
        # Those of an autograd function begin with its context.
        method = bool(positional) and positional[0].arg in {"self", "cls", "ctx"}
        args = [self._guess(argument, node) for argument in positional[method:]]
        return args, {argument.arg: self._guess(argument, node) for argument in node.args.kwonlyargs}

    def _guess(self, argument: ast.arg, node: ast.AST) -> Value:
        if argument in self.machine.project.no_tensors:
            return Array()
        value = guess(argument, node, aliases_in(self.main.tree))
        if argument.annotation is None and isinstance(value, Tensor):
            self.machine.guessed.update(dict.fromkeys(value.storages, argument))
        return value

    def _maker(self, path: list[ast.AST], name: str) -> Value | None:
        """Return a function of the file that makes inputs, by the names that such functions have."""
        names = [f"inputs_{name}", f"{name}_inputs", *_SAMPLES]
        # The nearest first: what the builder returned, the closure of the captured function, the top level.
        places: list[dict[Any, Value]] = []
        if isinstance(self._built, Mapping):
            places.append(self._built.slots)
        if len(path) > 1 and isinstance(path[0], Definition):
            made = [functions[-1] for functions in self.machine.created.values() if functions]
            places += [function.scope.slots for function in made if function.node is path[1]]
        places.append(self.main.scope.slots)
        candidates = (slots.get(wanted) for slots in places for wanted in names)
        return next((value for value in candidates if value is not None and _is_callable(value)), None)


def _decorated(function: Function) -> Value:
    """Return the value of the function's name, decorators included, where it is bound to that function."""
    value = function.scope.slots.get(function.name)
    return value if isinstance(value, (Function, Partial, Bound, Native)) else function


def _is_callable(value: Value) -> bool:
    if isinstance(value, Instance):
        return value.cls.find("__call__") is not None
    return isinstance(value, (Function, Partial, Bound))


def _unpacked(made: Value) -> list[Value]:
    return list(made.items) if isinstance(made, Sequence) and made.items is not None else [made]


def _renewed(value: Value) -> Value:
    """Return what another call would get: a tensor in memory of its own."""
    if not isinstance(value, Tensor):
        return value
    new = value.view(value.ndim)
    new.storages = frozenset((fresh(),))
    new.first = value.first
    return new
