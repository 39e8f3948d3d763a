"""Follow the user's functions and classes, and call Python's library by dotted name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.attributes import Later
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    Array,
    Bound,
    Class,
    External,
    Function,
    Host,
    Instance,
    Mapping,
    Object,
    Scope,
    Sequence,
    Value,
    const,
    number,
    origins_of,
    quoted,
    tensors_in,
)
from cudagraph_skill.check.library import builtins, containers, numpy, stdlib
from cudagraph_skill.check.library.torch import modules

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


_MARKS = {
    "builtins.property": "property",
    "builtins.staticmethod": "staticmethod",
    "builtins.classmethod": "classmethod",
    "abc.abstractmethod": "abstract",
    "contextlib.contextmanager": "contextmanager",
    "contextlib.asynccontextmanager": "contextmanager",
}

_CACHES = {"functools.lru_cache", "functools.cache"}


def mark(decorator: Value, function: Value) -> Value | None:
    """Return the function with a mark for what a decorator of Python makes of it; None for other decorators."""
    name = decorator.name if isinstance(decorator, (External, Object)) else ""
    if isinstance(function, Function):
        if name in _MARKS:
            function.marks |= {_MARKS[name]}
            return function
        if name in {"functools.cached_property", "torch.utils._contextlib.cached_property"}:
            function.marks |= {"property", "cached"}
            return function
        if name in _CACHES:
            function.memo = {}
            return function
    if name in {"functools.singledispatch", "functools.total_ordering", "typing.overload", "typing.final", "atexit.register"}:
        return function
    return None


def decorate_class(decorator: Value, made: Class) -> Value:
    """Return what a decorator makes of a class."""
    name = decorator.name if isinstance(decorator, (External, Object)) else ""
    if name.endswith("dataclass") or name in {"attr.s", "attrs.define", "attr.define"}:
        made.slots["__dataclass__"] = const(True)
    return made


def bind_arguments(machine: Machine, function: Function, args: Args, kwargs: Kwargs, scope: Scope) -> None:
    """Fill the names of a function's arguments."""
    spec = function.node.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    left = dict(kwargs)
    for place, name in enumerate(names):
        if place < len(args):
            scope.slots[name] = args[place]
        elif name in left:
            scope.slots[name] = left.pop(name)
        else:
            scope.slots[name] = function.defaults.get(name) or Value()
    for argument in spec.kwonlyargs:
        given = left.pop(argument.arg) if argument.arg in left else function.defaults.get(argument.arg)
        scope.slots[argument.arg] = given or Value()
    if spec.vararg:
        scope.slots[spec.vararg.arg] = Sequence("tuple", args[len(names) :], machine.round)
    if spec.kwarg:
        rest = Mapping(machine.round)
        rest.slots.update(left)
        scope.slots[spec.kwarg.arg] = rest


def complete(machine: Machine, cls: Class) -> None:
    """Look up base classes that were named in a module of which only the outline was read."""
    for place, base in enumerate(cls.bases):
        parent = base.resolve(machine) if isinstance(base, Later) else base
        cls.bases[place] = parent
        if isinstance(parent, Class) and parent is not cls and parent not in cls.bases[:place]:
            complete(machine, parent)


def instantiate(machine: Machine, cls: Class, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a new object of a class of the user's."""
    complete(machine, cls)
    libraries = cls.libraries()
    if args and any(name.endswith(("Enum", "Flag")) for name in libraries):
        members = (member for member in cls.slots.values() if isinstance(member, Host))
        return next((member for member in members if member.sym == args[0].sym), Value())
    made = Instance(cls, machine.round)
    if modules.is_module(made):
        made.slots["training"] = const(True)
    if any(name in {"builtins.dict", "collections.OrderedDict"} for name in libraries):
        made.slots["[]"] = containers.make_dict(machine, args, kwargs, node)
    elif "builtins.list" in libraries:
        made.slots["[]"] = containers.container("list")(machine, args, {}, node)
    modules.inherit_container(machine, made, args, kwargs)
    machine.instances.setdefault(cls.node, []).append(made)
    _initialize(machine, made, args, kwargs, node)
    return made


def _initialize(machine: Machine, made: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """Call `__init__`, or fill the fields of a dataclass or NamedTuple, which have none."""
    cls = made.cls
    init = cls.find("__init__")
    if init:
        machine.call(Bound(made, init[1]), args, kwargs, node)
        return
    is_dataclass = any("__dataclass__" in base.slots for base in cls.line())
    if is_dataclass or any(name.endswith("NamedTuple") for name in cls.libraries()):
        _fill_fields(machine, made, args, dict(kwargs))
        after = cls.find("__post_init__")
        if after:
            machine.call(Bound(made, after[1]), [], {}, node)


def _fill_fields(machine: Machine, made: Instance, args: Args, kwargs: Kwargs) -> None:
    names = [
        statement.target.id
        for cls in reversed(made.cls.line())
        for statement in cls.node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]
    for place, name in enumerate(dict.fromkeys(names)):
        default = made.cls.find(name)
        value = args[place] if place < len(args) else kwargs.get(name) or (default[1] if default else Value())
        if isinstance(value, Object) and value.name == "dataclasses.field":
            factory = value.kwargs.get("default_factory")
            value = machine.call(factory, [], {}, made.cls.node) if factory else value.kwargs.get("default", Value())
        made.slots[name] = value


def call(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a function of Python, of its library or of numpy returns."""
    function = stdlib.LIBRARY.get(name)
    if function is not None:
        return function(machine, args, kwargs, node)
    if name in stdlib.CLOCKS:
        return stdlib.clock(machine, node)
    if name in stdlib.ENVIRONMENT or name.startswith("os.environ"):
        return stdlib.environment_call(machine, name, args, kwargs, node)
    package = name.split(".", 1)[0]
    if package == "builtins":
        return _builtin(machine, name, args, kwargs, node)
    if package in {"random", "secrets", "uuid"}:
        return stdlib.random_call(machine, name, args, node)
    if package in {"numpy", "np"}:
        return numpy.call(machine, name, args, kwargs, node)
    if package == "math" or name == "operator.index":
        return stdlib.math_call(machine, name, args, node)
    if package in _COMPARING and any(tensor.on_gpu for arg in args for tensor in tensors_in(arg)):
        machine.report("CG206", node, f"{quoted(node)} compares GPU tensors on the host")
        return number()
    if package in {"logging", "warnings"}:
        return stdlib.logging_call(machine, name, args, node)
    return _opaque(name, args, kwargs, machine)


_COMPARING = {"bisect", "heapq", "statistics", "decimal", "fractions"}


def _builtin(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    last = name.removeprefix("builtins.")
    function = builtins.BUILTINS.get(last)
    if function is not None:
        return function(machine, args, kwargs, node)
    made = last[:1].isupper() or last == "staticmethod"
    return Object(name, args, kwargs, machine.round) if made else _opaque(name, args, kwargs)


def _opaque(name: str, args: Args, kwargs: Kwargs, machine: Machine | None = None) -> Value:
    """Return what a function returns of which nothing is known but its name: the same for the same arguments."""
    if machine is not None and machine.inside:
        for part in (*args, *kwargs.values()):
            machine.use(part)
    if machine is not None and name.rsplit(".", 1)[-1][:1].isupper():
        return Object(name, args, kwargs, machine.round)
    parts = [*args, *kwargs.values()]
    return Value(mix(name, *(part.sym for part in parts)), origins_of(parts))


def method(machine: Machine, receiver: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a Python object returns."""
    if isinstance(receiver, Sequence):
        return containers.sequence_method(machine, receiver, name, args, node)
    if isinstance(receiver, Mapping):
        return containers.mapping_method(machine, receiver, name, args, kwargs, node)
    if isinstance(receiver, Host):
        return containers.host_method(machine, receiver, name, args, kwargs, node)
    if isinstance(receiver, Array):
        return numpy.array_method(machine, receiver, name, args, kwargs, node)
    parts = [receiver, *args, *kwargs.values()]
    return Value(mix(name, *(part.sym for part in parts)), origins_of(parts))
