"""What Python's own builtins, containers and standard library do to values, and numpy."""

from __future__ import annotations

import ast
import builtins
import math
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter import expressions
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Array,
    Bound,
    Choice,
    Class,
    External,
    Function,
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
    is_none,
    joined,
    mix,
    number,
    origins_of,
    quoted,
    tensors_in,
)
from cudagraph_skill.check.library.torch import functions, objects

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

_CLOCKS = {"time.time", "time.perf_counter", "time.monotonic", "time.process_time", "time.time_ns", "time.perf_counter_ns",
           "time.monotonic_ns", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today",
           "timeit.default_timer", "time.thread_time"}  # fmt: skip
_ENVIRONMENT = {"os.getenv", "os.environ.get", "json.load", "yaml.safe_load", "pathlib.Path.read_text"}
_SILENT = {"setdefault"}


def builtin(name: str) -> Value:
    """What a name means that no scope defines."""
    return External(f"builtins.{name}") if hasattr(builtins, name) else Value(mix("name", name))


def key_of(found: Value) -> Any:
    """The Python key that a value is in a dict; None where it is not known."""
    if isinstance(found, Host) and found.known and found.value is not None:
        return found.value
    if isinstance(found, Sequence) and found.kind == "tuple" and found.items is not None:
        keys = [key_of(each) for each in found.items]
        return None if None in keys else tuple(keys)
    if isinstance(found, (Instance, Class, Function, External, Object)):
        return ("object", found.sym)
    if isinstance(found, Tensor):
        return ("tensor", min(found.storages))
    if isinstance(found, Host) and not found.known:
        return ("host", found.sym)
    return None


def yields(node: ast.AST) -> bool:
    """Whether a function is a generator."""
    found = _GENERATORS.get(node)
    if found is None:
        body = node.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
        found = _GENERATORS[node] = any(map(_has_yield, body))
    return found


_GENERATORS: dict[ast.AST, bool] = {}


def _has_yield(node: ast.AST) -> bool:
    if isinstance(node, (ast.Yield, ast.YieldFrom)):
        return True
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        return False
    return any(map(_has_yield, ast.iter_child_nodes(node)))


def readsquoted(machine: Machine, found: Value, node: ast.AST) -> None:
    """The text of a value is wanted: that of a GPU tensor needs its numbers."""
    if any(tensor.on_gpu for tensor in tensors_in(found)):
        machine.report("CG204", node, f"the text of the GPU tensor {quoted(node)} needs its values on the host")


# Functions and classes ------------------------------------------------------------------------------------------------

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
    """The function with a mark for what a decorator of Python makes of it; None for other decorators."""
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
    """What a decorator makes of a class."""
    name = decorator.name if isinstance(decorator, (External, Object)) else ""
    if name.endswith("dataclass") or name in {"attr.s", "attrs.define", "attr.define"}:
        made.slots["__dataclass__"] = const(True)
    return made


def bind_arguments(machine: Machine, function: Function, args: Args, kwargs: Kwargs, scope: Scope) -> None:
    """Fill the names of a function's arguments."""
    spec = function.node.args
    names = [each.arg for each in (*spec.posonlyargs, *spec.args)]
    left = dict(kwargs)
    for place, name in enumerate(names):
        if place < len(args):
            scope.slots[name] = args[place]
        elif name in left:
            scope.slots[name] = left.pop(name)
        else:
            scope.slots[name] = function.defaults.get(name) or Value()
    for each in spec.kwonlyargs:
        given = left.pop(each.arg) if each.arg in left else function.defaults.get(each.arg)
        scope.slots[each.arg] = given or Value()
    if spec.vararg:
        scope.slots[spec.vararg.arg] = Sequence("tuple", args[len(names) :], machine.round)
    if spec.kwarg:
        rest = Mapping(machine.round)
        rest.slots.update(left)
        scope.slots[spec.kwarg.arg] = rest


def complete(machine: Machine, cls: Class) -> None:
    """Look up base classes that were named in a module of which only the outline was read."""
    for place, base in enumerate(cls.bases):
        found = base.resolve(machine) if isinstance(base, expressions.Later) else base
        cls.bases[place] = found
        if isinstance(found, Class) and found is not cls and found not in cls.bases[:place]:
            complete(machine, found)


def instantiate(machine: Machine, cls: Class, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A new object of a class of the user's."""
    complete(machine, cls)
    libraries = cls.libraries()
    if any(name.endswith(("Enum", "Flag")) for name in libraries) and args:
        return next((each for name, each in cls.slots.items() if isinstance(each, Host) and each.sym == args[0].sym), Value())
    made = Instance(cls, machine.round)
    if any(name.startswith("torch.nn.") for name in libraries):
        made.slots["training"] = const(True)
    for name in libraries:
        if name in {"builtins.dict", "collections.OrderedDict", "builtins.list"}:
            made.slots["[]"] = (
                _dict(machine, args, kwargs, node) if "ict" in name else _container("list")(machine, args, {}, node)
            )
    objects.inherit_container(machine, made, args, kwargs)
    machine.instances.setdefault(cls.node, []).append(made)
    found = cls.find("__init__")
    if found:
        machine.call(Bound(made, found[1]), args, kwargs, node)
    elif any("__dataclass__" in each.slots for each in cls.line()) or any(name.endswith("NamedTuple") for name in libraries):
        _fill_fields(machine, made, args, dict(kwargs))
        after = cls.find("__post_init__")
        if after:
            machine.call(Bound(made, after[1]), [], {}, node)
    return made


def _fill_fields(machine: Machine, made: Instance, args: Args, kwargs: Kwargs) -> None:
    names = [
        each.target.id
        for cls in reversed(made.cls.line())
        for each in cls.node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
    for place, name in enumerate(dict.fromkeys(names)):
        default = made.cls.find(name)
        value = args[place] if place < len(args) else kwargs.get(name) or (default[1] if default else Value())
        if isinstance(value, Object) and value.name == "dataclasses.field":
            factory = value.kwargs.get("default_factory")
            value = machine.call(factory, [], {}, made.cls.node) if factory else value.kwargs.get("default", Value())
        made.slots[name] = value


# Builtins -------------------------------------------------------------------------------------------------------------


def call(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """What a function of Python, of its library or of numpy returns."""
    package = name.split(".", 1)[0]
    if package == "builtins":
        run = _BUILTINS.get(name[9:])
        if run is not None:
            return run(machine, args, kwargs, node)
        return Object(name, args, kwargs, machine.round) if name[9:10].isupper() else _opaque(name, args, kwargs)
    if name in _CLOCKS:
        return Host(
            "clock",
            origins=machine.origin("CG104", node, f"{quoted(node)} is read once, at capture: every replay uses that moment"),
        )
    if package in {"random", "secrets", "uuid"}:
        return _random(machine, name, args, node)
    if package in {"numpy", "np"}:
        return _numpy(machine, name, args, kwargs, node)
    if package == "math" or name == "operator.index":
        return _math(machine, name, args, node)
    run = _LIBRARY.get(name)
    if run is not None:
        return run(machine, args, kwargs, node)
    if package in {"bisect", "heapq", "statistics", "decimal", "fractions"} and any(
        tensor.on_gpu for each in args for tensor in tensors_in(each)
    ):
        machine.report("CG206", node, f"{quoted(node)} compares GPU tensors on the host")
        return number()
    if name in _ENVIRONMENT or name.startswith("os.environ"):
        machine.report("CG113", node, f"{quoted(node)} is read at capture only; replays keep what it said then")
        if name in {"os.getenv", "os.environ.get"}:  # a variable is taken to be unset: switches for debugging are
            return args[1] if len(args) > 1 else kwargs.get("default", const(None))
        return Host("str", sym=mix(name, *(each.sym for each in args)))
    if name.startswith(("logging.", "warnings.")):
        return _logging(machine, name, args, node)
    return _opaque(name, args, kwargs, machine)


def _opaque(name: str, args: Args, kwargs: Kwargs, machine: Machine | None = None) -> Value:
    """What a function returns of which nothing is known but its name: the same for the same arguments."""
    if machine is not None and machine.inside:
        for each in (*args, *kwargs.values()):
            machine.use(each)
    if machine is not None and name.rsplit(".", 1)[-1][:1].isupper():
        return Object(name, args, kwargs, machine.round)
    parts = [*args, *kwargs.values()]
    return Value(mix(name, *(each.sym for each in parts)), origins_of(parts))


def _number(kind: Callable[[Any], Any]) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def convert(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
        if not args:
            return const(kind())  # type: ignore[call-arg]
        found = args[0]
        if isinstance(found, Tensor):
            return read_number(machine, found, node, kind.__name__)
        if isinstance(found, Instance):
            method = found.cls.find(f"__{kind.__name__}__") or found.cls.find("__index__")
            return machine.call(Bound(found, method[1]), [], {}, node) if method else Host(kind.__name__)
        if isinstance(found, Host) and found.known:
            try:
                return const(kind(found.value), found.origins)
            except (TypeError, ValueError, OverflowError):
                return number(origins=found.origins)
        if isinstance(found, (Sequence, Mapping)) and kind is bool:
            return Host("bool", sym=mix("bool", found.sym), origins=origins_of([found]))
        return Host(kind.__name__, sym=mix(kind.__name__, found.sym), origins=found.origins)

    return convert


def read_number(machine: Machine, tensor: Tensor, node: ast.AST, how: str) -> Value:
    """A Python number out of a tensor."""
    if tensor.on_gpu:
        machine.report("CG201", node, f"{quoted(node)} reads a value from the GPU on the host")
        return number()
    objects.on_host_read(machine, tensor, node)
    return Host("number", sym=mix(how, tensor.sym), origins=tensor.origins)


def _print(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for each in args:
        readsquoted(machine, each, node)
    if not any(tensor.on_gpu for each in args for tensor in tensors_in(each)):
        machine.report("CG108", node, f"{quoted(node)} runs at capture only, not at a replay")
    del kwargs
    return const(None)


def _str(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    for each in args[:1]:
        readsquoted(machine, each, node)
        if isinstance(each, Host) and each.known and not isinstance(each.value, (int, float, str, bool, type(None))):
            break
        if isinstance(each, Host) and each.known:
            return const(str(each.value), each.origins)
    return Host("str", sym=mix("str", *(each.sym for each in args)), origins=origins_of(args))


def _len(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if not args:
        return number()
    found = args[0]
    if isinstance(found, Sequence):
        items = expressions.held(machine, found, node)
        slot = (id(found), "items")
        if slot in machine.read_slots:
            message = f"{quoted(node)} grows at every call; the graph keeps the length that it has at capture"
            return number(origins=machine.origin("CG302", node, message, slot))
        return number(mix("len", found.sym), found.origins) if items is None else const(len(items))
    if isinstance(found, Mapping):
        return number(mix("len", found.sym)) if found.rest is not None else const(len(found.slots))
    if isinstance(found, Host) and found.known and isinstance(found.value, (str, bytes, tuple)):
        return const(len(found.value), found.origins)
    if isinstance(found, Instance):
        method = found.cls.find("__len__")
        if method:
            return machine.call(Bound(found, method[1]), [], {}, node)
        return objects.length(found)
    if isinstance(found, Object):
        return objects.length(found)
    if isinstance(found, Tensor):
        return const(found.first) if found.first is not None else Host("number", sym=mix("len", min(found.storages)))
    return number(mix("len", found.sym), found.origins)


def _range(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if any(isinstance(each, Tensor) and each.on_gpu for each in args):
        machine.report("CG207", node, f"{quoted(node)} needs the value of a GPU tensor as a loop count")
        return Sequence("range", None, machine.round, number())
    bounds = [each.value for each in args if isinstance(each, Host) and each.known and isinstance(each.value, int)]
    if len(bounds) == len(args) and args:
        try:
            steps = range(*bounds)
        except (TypeError, ValueError):
            return Value()
        if len(steps) <= 64:
            made = Sequence("range", [const(each, origins_of(args)) for each in steps], machine.round)
            made.origins = origins_of(args)
            return made
    kind = "extent" if any(isinstance(each, Host) and each.kind == "extent" for each in args) else "number"
    made = Sequence(
        "range", None, machine.round, Host(kind, sym=mix("range", *(each.sym for each in args)), origins=origins_of(args))
    )
    made.origins = origins_of(args)
    return made


def _enumerate(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    start = args[1] if len(args) > 1 else kwargs.get("start", const(0))
    items = expressions.items(machine, args[0], node)
    if items is None:
        pair = Sequence("tuple", [number(mix("place", id(node))), expressions.item_of(machine, args[0], node)], machine.round)
        return Sequence("iterator", None, machine.round, pair)
    first = start.value if isinstance(start, Host) and isinstance(start.value, int) else 0
    pairs: Args = [Sequence("tuple", [const(first + place), each], machine.round) for place, each in enumerate(items)]
    return Sequence("iterator", pairs, machine.round)


def _zip(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    columns = [expressions.items(machine, each, node) for each in args]
    if columns and all(column is not None for column in columns):
        rows: Args = [
            Sequence("tuple", list(row), machine.round) for row in zip(*(column or [] for column in columns), strict=False)
        ]
        return Sequence("iterator", rows, machine.round)
    each_item = [expressions.item_of(machine, each, node) for each in args]
    return Sequence("iterator", None, machine.round, Sequence("tuple", each_item, machine.round))


def _map(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Value()
    columns = [expressions.items(machine, each, node) for each in args[1:]]
    if all(column is not None for column in columns):
        rows = zip(*(column or [] for column in columns), strict=False)
        return Sequence("iterator", [machine.call(args[0], list(row), {}, node) for row in rows], machine.round)
    one = machine.call(args[0], [expressions.item_of(machine, each, node) for each in args[1:]], {}, node)
    return Sequence("iterator", None, machine.round, one)


def _filter(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Value()
    one = expressions.item_of(machine, args[1], node)
    tested = one if is_none(args[0]) else machine.call(args[0], [one], {}, node)
    expressions.truth(machine, tested, node)
    return Sequence("iterator", None, machine.round, one)


def _sum(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    items = expressions.items(machine, args[0], node)
    each = items or [expressions.item_of(machine, args[0], node)]
    if any(isinstance(one, Tensor) for one in each):
        return functions.elementwise(machine, [one for one in each if isinstance(one, Tensor)], node)
    if items is not None and all(isinstance(one, Host) and one.known and isinstance(one.value, (int, float)) for one in items):
        return const(sum(one.value for one in items if isinstance(one, Host)), origins_of(items))  # type: ignore[misc]
    return number(mix("sum", *(one.sym for one in each)), origins_of(each))


def _extreme(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    each = args if len(args) > 1 else expressions.items(machine, args[0], node) or [expressions.item_of(machine, args[0], node)]
    compared = [machine.call(kwargs["key"], [one], {}, node) for one in each] if "key" in kwargs else each
    if any(isinstance(one, Tensor) and one.on_gpu for one in compared) and (len(compared) > 1 or len(args) == 1):
        machine.report("CG206", node, f"{quoted(node)} compares GPU tensors on the host")
        return next(one for one in each if isinstance(one, Tensor)) if any(isinstance(one, Tensor) for one in each) else each[0]
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else "max"
    known = [one.value for one in each if isinstance(one, Host) and one.known and isinstance(one.value, (int, float))]
    if len(known) == len(each) and known and "key" not in kwargs:
        return const(min(known) if name == "min" else max(known), origins_of(each))
    if all(isinstance(one, Host) for one in each):
        return number(mix(name, *(one.sym for one in each)), origins_of(each))
    return (joined(each, machine.round) or Value()).marked(origins_of(each))


def _sorted(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    items = expressions.items(machine, args[0], node)
    each = items or [expressions.item_of(machine, args[0], node)]
    compared = [machine.call(kwargs["key"], [one], {}, node) for one in each] if "key" in kwargs else each
    if any(isinstance(one, Tensor) and one.on_gpu for one in compared) and (items is None or len(items) > 1):
        machine.report("CG206", node, f"{quoted(node)} compares GPU tensors on the host")
    if items is not None and "key" not in kwargs and all(isinstance(one, Host) and one.known for one in items):
        try:
            return Sequence("list", sorted(items, key=lambda one: one.value), machine.round)  # type: ignore[attr-defined]
        except TypeError:
            return Value()
    return Sequence("list", items, machine.round, joined(each, machine.round))


def _any(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    items = expressions.items(machine, args[0], node)
    each = items if items is not None else [expressions.item_of(machine, args[0], node)]
    if any(isinstance(one, Tensor) and one.on_gpu for one in each):
        machine.report("CG206", node, f"{quoted(node)} asks for the truth of GPU tensors on the host")
        return Host("bool")
    truths = [expressions.truth(machine, one, node)[0] for one in each]
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else "any"
    if items is not None and None not in truths:
        return const(any(truths) if name == "any" else all(truths), origins_of(each))
    if items is not None and name == "any" and True in truths:
        return const(True, origins_of(each))
    if items is not None and name == "all" and False in truths:
        return const(False, origins_of(each))
    return Host("bool", sym=mix(name, *(one.sym for one in each)), origins=origins_of(each))


def _numeric(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if any(isinstance(each, Tensor) for each in args):
        return functions.elementwise(machine, args, node)
    known = [each.value for each in args if isinstance(each, Host) and each.known]
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if len(known) == len(args) and name in {"abs", "round"} and all(isinstance(each, (int, float)) for each in known):
        try:
            return const(getattr(builtins, name)(*known), origins_of(args))
        except (TypeError, ValueError, OverflowError):
            return number(origins=origins_of(args))
    return number(mix(name, *(each.sym for each in args)), origins_of(args))


def _container(kind: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def make(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        del kwargs
        if not args:
            return Sequence(kind, [], machine.round)
        items = expressions.items(machine, args[0], node)
        if items is None:
            made = Sequence(kind, None, machine.round, expressions.item_of(machine, args[0], node))
            made.origins = args[0].origins
            return made
        return Sequence(kind, list(reversed(items)) if kind == "reversed" else items, machine.round)

    return make


def _dict(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = Mapping(machine.round)
    if args and isinstance(args[0], Mapping):
        made.slots.update(args[0].slots)
        made.rest = args[0].rest
    elif args:
        for pair in expressions.items(machine, args[0], node) or [expressions.item_of(machine, args[0], node)]:
            parts = expressions.items(machine, pair, node, 2)
            key = key_of(parts[0]) if parts else None
            if parts is None or len(parts) < 2 or key is None:
                made.rest = parts[1] if parts and len(parts) > 1 else Value()
            else:
                made.slots[key] = parts[1]
    made.slots.update(kwargs)
    return made


def _isinstance(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    del machine, node
    if len(args) < 2:
        return Host("bool")
    found, wanted = args[0], args[1]
    if isinstance(wanted, Host) and wanted.known:
        return Host("bool")
    answers = [_is_a(found, each) for each in (wanted.each() if isinstance(wanted, Sequence) else [wanted])]
    if True in answers:
        return const(True)
    return Host("bool", sym=mix("isinstance", found.sym, wanted.sym)) if None in answers or not answers else const(False)


_HOST_TYPES = {"builtins.int", "builtins.float", "builtins.str", "builtins.bool", "builtins.list", "builtins.tuple",
               "builtins.dict", "numbers.Number", "numbers.Real", "collections.abc.Mapping", "collections.abc.Sequence"}  # fmt: skip


def _is_a(found: Value, wanted: Value) -> bool | None:
    """Whether a value is of a type, where that is known."""
    if isinstance(wanted, Class):
        return (
            wanted in found.cls.line()
            if isinstance(found, Instance) and not found.guessed
            else None
            if type(found) is Value
            else False
        )
    if not isinstance(wanted, External) or isinstance(found, Choice) or type(found) is Value:
        return None
    name = wanted.name
    if isinstance(found, Tensor):
        if name in {"torch.Tensor", "torch.nn.Parameter"}:
            return None if found.optional or name.endswith("Parameter") else True
        return False if name in _HOST_TYPES else None
    if isinstance(found, Host) and name in {"torch.Tensor", "torch.nn.Module"}:
        return False
    if isinstance(found, Host) and found.known and name.startswith("builtins."):
        kind = getattr(builtins, name[9:], None)
        return isinstance(found.value, kind) if isinstance(kind, type) else None
    if isinstance(found, Sequence) and name.startswith("builtins."):
        return found.kind == name[9:]
    if isinstance(found, Mapping) and name.startswith("builtins."):
        return name == "builtins.dict"
    if isinstance(found, Object) and name.startswith("torch."):
        return True if found.name == name else bool(name == "torch.nn.Module" and found.name.startswith("torch.nn."))
    if isinstance(found, Instance) and name.startswith("torch.nn."):
        return name in found.cls.libraries() or None
    return None


def _hasattr(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    del machine, node
    if len(args) < 2 or not isinstance(args[1], Host) or not isinstance(args[1].value, str):
        return Host("bool")
    owner, name = args[0], args[1].value
    if isinstance(owner, Instance):
        if name in owner.slots or owner.cls.find(name):
            return const(True)
        known = not owner.guessed and not any(
            not each.startswith(("torch.nn.Module", "builtins.", "abc.")) for each in owner.cls.libraries()
        )
        return const(False) if known and not owner.cls.find("__getattr__") else Host("bool")
    if isinstance(owner, (Function, Bound)):
        return const(False)
    return Host("bool", sym=mix("hasattr", owner.sym, name))


def _getattr(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Value()
    owner, name = args[0], args[1]
    if not isinstance(name, Host) or not isinstance(name.value, str):
        if isinstance(owner, Instance):
            options: Args = [each for each in owner.slots.values() if isinstance(each, (Tensor, Instance, Object))]
            return expressions.chosen(machine, joined(options, machine.round) or Value(), name)
        return Value(mix("getattr", owner.sym, name.sym), name.origins)
    missing = _hasattr(machine, args, kwargs, node)
    if len(args) > 2 and isinstance(missing, Host) and missing.value is False:
        return args[2]
    found = expressions.attribute(machine, owner, name.value, node)
    return expressions.chosen(machine, found, name)


def _setattr(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if len(args) == 3 and isinstance(args[1], Host) and isinstance(args[1].value, str):
        target = ast.copy_location(ast.Attribute(ast.Name("_", ast.Load()), args[1].value, ast.Store()), node)
        expressions.set_attribute(machine, target, args[0], args[2])
    return const(None)


def _id(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if args and isinstance(args[0], Tensor):
        return identity(machine, args[0], node)
    return number(mix("id", args[0].sym if args else 0))


def identity(machine: Machine, tensor: Tensor, node: ast.AST) -> Value:
    """A number that tells tensors apart: eager code sees a new one for new inputs, a replay never does."""
    changing = not tensor.parameter and machine.inside and tensor.storages & machine.torch.inputs
    origins = (
        machine.origin("CG111", node, f"{quoted(node)} differs for each new tensor; a replay always has the captured one")
        if changing
        else NONE
    )
    return number(mix("id", tensor.storages) if not changing else None, origins)


def _iter(machine: Machine, args: Args, _: Kwargs, __: ast.AST) -> Value:
    return Object("builtins.iter", args, {}, machine.round) if args else Value()


def _next(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    source = args[0]
    if isinstance(source, Sequence):
        items = source.items
        return items[0] if items else source.rest or Value()
    if isinstance(source, Object):
        found = advanced(machine, source, node)
        if machine.inside and source.made < machine.round:
            message = f"{quoted(node)} advances an iterator at capture only; every replay repeats what it gave then"
            origins = machine.origin("CG105", node, message)
            if isinstance(found, Host):
                return Host(found.kind, origins=found.origins | origins)
            machine.emit(origins)
        return found
    if isinstance(source, Instance):
        method = source.cls.find("__next__")
        if method:
            return machine.call(Bound(source, method[1]), [], {}, node)
    return expressions.item_of(machine, source, node)


def advanced(machine: Machine, source: Object, node: ast.AST) -> Value:
    """The next item of an iterator."""
    place = source.slots.get("place")
    count = place.value if isinstance(place, Host) and isinstance(place.value, int) else 0
    source.slots["place"] = const(count + 1)
    if source.name == "itertools.count":
        first = source.args[0].value if source.args and isinstance(source.args[0], Host) else 0
        return const((first if isinstance(first, int) else 0) + count)
    if source.name == "generator":
        yielded: Args = []
        if len(source.args) and len(machine.frames) < 20:

            def keep(found: Value) -> int:
                yielded.append(found)
                return 0

            machine.run_generator(source, keep)
        return yielded[min(count, len(yielded) - 1)] if yielded else Value()
    inner = source.args[0] if source.args else Value()
    items = expressions.items(machine, inner, node)
    if items:
        return items[count % len(items)]
    return expressions.item_of(machine, inner, node)


def _open(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    mode = args[1] if len(args) > 1 else kwargs.get("mode")
    writes = isinstance(mode, Host) and isinstance(mode.value, str) and any(letter in mode.value for letter in "wax+")
    what = "writes a file" if writes else "reads a file"
    machine.report("CG108" if writes else "CG113", node, f"{quoted(node)} {what} at capture only, not at a replay")
    return Object("builtins.open", args, kwargs, machine.round)


def _type(machine: Machine, args: Args, _: Kwargs, __: ast.AST) -> Value:
    del machine
    if len(args) == 1 and isinstance(args[0], Instance):
        return args[0].cls
    return Value(mix("type", *(each.sym for each in args)))


def _super(machine: Machine, args: Args, _: Kwargs, __: ast.AST) -> Value:
    del machine
    return expressions.Super(args[0], args[1]) if len(args) == 2 and isinstance(args[0], Class) else Value()


def _slice(machine: Machine, args: Args, _: Kwargs, __: ast.AST) -> Value:
    bounds = [const(None), *args] if len(args) == 1 else list(args)
    return Sequence("slice", [*bounds, *[const(None)] * (3 - len(bounds))], machine.round)


def _nothing(_: Machine, __: Args, ___: Kwargs, ____: ast.AST) -> Value:
    return const(None)


_BUILTINS: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    "int": _number(int), "float": _number(float), "bool": _number(bool), "complex": _number(complex),
    "print": _print, "str": _str, "repr": _str, "format": _str, "ascii": _str,
    "len": _len, "range": _range, "enumerate": _enumerate, "zip": _zip, "map": _map, "filter": _filter, "sum": _sum,
    "max": _extreme, "min": _extreme, "sorted": _sorted, "any": _any, "all": _any,
    "abs": _numeric, "round": _numeric, "divmod": _numeric, "pow": _numeric,
    "list": _container("list"), "tuple": _container("tuple"), "set": _container("set"), "frozenset": _container("set"),
    "reversed": _container("reversed"), "dict": _dict,
    "isinstance": _isinstance, "hasattr": _hasattr, "getattr": _getattr, "setattr": _setattr, "id": _id,
    "iter": _iter, "next": _next, "open": _open, "type": _type, "super": _super, "slice": _slice, "delattr": _nothing, "breakpoint": _nothing,
}  # fmt: skip


# The standard library and numpy ---------------------------------------------------------------------------------------


def _random(machine: Machine, name: str, args: Args, node: ast.AST) -> Value:
    if name.rsplit(".", 1)[-1] in {"Random", "SystemRandom"}:
        return Object("random.Random", args, {}, machine.round)
    return drawn(machine, "CG601", name.rsplit(".", 1)[-1], args, node)


def drawn(machine: Machine, hazard: str, how: str, args: Args, node: ast.AST) -> Value:
    """A random number of the host, or an item that one picks."""
    if how in {"seed", "setstate", "getstate"}:
        return const(None)
    origins = machine.origin(hazard, node, f"{quoted(node)} draws a random number on the host: once, at capture")
    if how in {"choice", "choices", "sample", "shuffle", "permutation"} and args:
        picked = expressions.item_of(machine, args[0], node)
        if not isinstance(picked, (Host, Array)) and type(picked) is not Value:
            machine.emit(origins)
        if how == "shuffle":
            machine.emit(origins)
            return const(None)
        if how in {"choices", "sample"}:
            made = Sequence("list", None, machine.round, Host(origins=origins) if isinstance(picked, Host) else picked)
            made.origins = origins
            return made
        return Host(origins=origins) if isinstance(picked, Host) else picked.marked(origins)
    return number(origins=origins)


def _numpy(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if name.startswith("numpy.random."):
        last = name.rsplit(".", 1)[-1]
        if last in {"default_rng", "RandomState", "Generator"}:
            return Object("numpy.random.Generator", args, kwargs, machine.round)
        found = drawn(machine, "CG602", last, args, node)
        return Array(origins=found.origins) if args and type(found) is Host else found
    parts = [*args, *kwargs.values()]
    if any(tensor.on_gpu for each in parts for tensor in tensors_in(each)):
        machine.report("CG203", node, f"{quoted(node)} needs a GPU tensor as a numpy array")
        return Array()
    if name in {"numpy.float32", "numpy.float64", "numpy.int64", "numpy.int32"} and not args:
        return Host("dtype", sym=mix(name))
    return Array(sym=mix(name, *(each.sym for each in parts)), origins=origins_of(parts))


def _math(machine: Machine, name: str, args: Args, node: ast.AST) -> Value:
    for each in args:
        if isinstance(each, Tensor):
            return read_number(machine, each, node, name)
    known = [each.value for each in args if isinstance(each, Host) and each.known and isinstance(each.value, (int, float))]
    function = getattr(math, name[5:], None) if name.startswith("math.") else None
    if len(known) == len(args) and callable(function) and all(abs(each) < 1e6 for each in known):
        try:
            return const(function(*known), origins_of(args))
        except (TypeError, ValueError, OverflowError):
            return number(origins=origins_of(args))
    return number(mix(name, *(each.sym for each in args)), origins_of(args))


def _logging(machine: Machine, name: str, args: Args, node: ast.AST) -> Value:
    last = name.rsplit(".", 1)[-1]
    if last in {"getLogger", "Logger"}:
        return Object("logging.Logger", args, {}, machine.round)
    return logged(machine, last, args, node)


def logged(machine: Machine, how: str, args: Args, node: ast.AST) -> Value:
    """A line in a log: from warnings on, its arguments are formatted under Python's default level."""
    formats = {"DEBUG": {"debug", "info"}, "INFO": {"info"}}.get(machine.torch.log_level, set())
    if how in {"warning", "error", "critical", "exception", "warn"} | formats:
        for each in args:
            readsquoted(machine, each, node)
    if how in {"debug", "info", "warning", "error", "critical", "exception", "log", "warn", "warning_once"}:
        machine.report("CG108", node, f"{quoted(node)} runs at capture only, not at a replay")
        return const(None)
    return Value(mix("logging", how))


def _partial(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del machine, node
    return Partial(args[0], args[1:], kwargs) if args else Value()


def _identity_decorator(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del machine, args, kwargs, node
    return Native(lambda given, _: given[0] if given else Value())


def _cache(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del node
    if args and isinstance(args[0], Function):
        args[0].memo = {}
        return args[0]
    return Object("functools.lru_cache", args, kwargs, machine.round)


def _reduce(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Value()
    items = expressions.items(machine, args[1], node)
    rest = (items or [expressions.item_of(machine, args[1], node)] * 2)[:12]
    result = args[2] if len(args) > 2 else rest.pop(0) if rest else Value()
    for each in rest:
        result = machine.call(args[0], [result, each], {}, node)
    return result


def _copied(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    found = args[0]
    if isinstance(found, Tensor):
        return functions.elementwise(machine, [found], node)
    return copy_of(machine, found)


def copy_of(machine: Machine, found: Value, depth: int = 4) -> Value:
    """A deep copy: the same structure on memory of its own."""
    if not depth:
        return found
    if isinstance(found, Tensor):
        new = Tensor(found.device, found.ndim, found.dtype, None, found.sym, found.origins, pinned=found.pinned)
        new.parameter = found.parameter
        return new
    if isinstance(found, Sequence):
        items = None if found.items is None else [copy_of(machine, each, depth - 1) for each in found.items]
        return Sequence(found.kind, items, machine.round, found.rest and copy_of(machine, found.rest, depth - 1))
    if isinstance(found, Instance):
        new_instance = Instance(found.cls, machine.round)
        new_instance.slots = {name: copy_of(machine, each, depth - 1) for name, each in found.slots.items()}
        return new_instance
    if isinstance(found, Object):
        twin = Object(found.name, [copy_of(machine, each, depth - 1) for each in found.args], found.kwargs, machine.round)
        twin.slots = {name: copy_of(machine, each, depth - 1) for name, each in found.slots.items()}
        twin.site = found.site
        return twin
    if isinstance(found, Mapping):
        made = Mapping(machine.round, found.rest)
        made.slots = {name: copy_of(machine, each, depth - 1) for name, each in found.slots.items()}
        return made
    return found


def _chain(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    columns = [expressions.items(machine, each, node) for each in args]
    if all(column is not None for column in columns):
        return Sequence("iterator", [each for column in columns for each in column or []], machine.round)
    rest = joined([expressions.item_of(machine, each, node) for each in args], machine.round)
    return Sequence("iterator", None, machine.round, rest)


def _islice(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if any(isinstance(each, Tensor) and each.on_gpu for each in args[1:]):
        machine.report("CG207", node, f"{quoted(node)} needs the value of a GPU tensor as a count")
    return Sequence("iterator", None, machine.round, expressions.item_of(machine, args[0], node) if args else None)


def _repeat(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if any(isinstance(each, Tensor) and each.on_gpu for each in (*args[1:], *kwargs.values())):
        machine.report("CG207", node, f"{quoted(node)} needs the value of a GPU tensor as a count")
    return Sequence("iterator", None, machine.round, args[0] if args else None)


def _iterator(name: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def make(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        del node
        return Object(name, args, kwargs, machine.round)

    return make


def _defaultdict(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = _dict(machine, args[1:], kwargs, node)
    if isinstance(made, Mapping) and args:
        made.factory = args[0]
    return made


def _counter(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = _dict(machine, [each for each in args if isinstance(each, Mapping)], kwargs, node)
    if isinstance(made, Mapping):
        made.factory = External("builtins.int")
        made.rest = Value() if args and not isinstance(args[0], Mapping) else made.rest
    return made


def _namespace(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, node
    made = Object("types.SimpleNamespace", [], {}, machine.round)
    made.slots.update(kwargs)
    return made


def _saved(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    values = [*args, *kwargs.values()]
    if any(tensor.on_gpu for each in values for tensor in tensors_in(each)) or any(_holds_tensors(each) for each in values):
        machine.report("CG234", node, f"{quoted(node)} copies GPU tensors to the host to write them")
    return Value()


def _holds_tensors(found: Value) -> bool:
    return isinstance(found, (Mapping, Sequence)) and any(tensor.on_gpu for tensor in tensors_in(found))


def _threaded(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del node
    return Object("threading.Thread", args, kwargs, machine.round)


def _executor(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del node
    return Object("concurrent.futures.Executor", args, kwargs, machine.round)


def _replaced(machine: Machine, args: Args, kwargs: Kwargs, _: ast.AST) -> Value:
    if not args or not isinstance(args[0], Instance):
        return Value()
    made = Instance(args[0].cls, machine.round)
    made.slots = {**args[0].slots, **kwargs}
    return made


def _collected(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    machine.report("CG502", node, f"{quoted(node)} runs at capture only, and costs time")
    return number(mix("collected", len(args)))


def _null_context(machine: Machine, args: Args, _: Kwargs, __: ast.AST) -> Value:
    return Object("contextlib.nullcontext", args, {}, machine.round)


_LIBRARY: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    "functools.partial": _partial, "functools.partialmethod": _partial, "functools.wraps": _identity_decorator,
    "functools.lru_cache": _cache, "functools.cache": _cache, "functools.reduce": _reduce,
    "copy.deepcopy": _copied, "copy.copy": _copied,
    "itertools.chain": _chain, "itertools.chain.from_iterable": _chain, "itertools.islice": _islice,
    "itertools.count": _iterator("itertools.count"), "itertools.cycle": _iterator("itertools.cycle"),
    "itertools.repeat": _repeat, "itertools.zip_longest": _zip,
    "collections.deque": _container("deque"), "collections.OrderedDict": _dict, "collections.defaultdict": _defaultdict,
    "collections.Counter": _counter, "types.SimpleNamespace": _namespace,
    "pickle.dumps": _saved, "pickle.dump": _saved, "torch.save": _saved, "numpy.save": _saved, "joblib.dump": _saved,
    "threading.Thread": _threaded, "concurrent.futures.ThreadPoolExecutor": _executor,
    "multiprocessing.pool.ThreadPool": _executor,
    "contextlib.nullcontext": _null_context, "contextlib.suppress": _iterator("contextlib.suppress"),
    "contextlib.closing": _iterator("contextlib.closing"),
    "dataclasses.replace": _replaced,
    "gc.collect": _collected,
    "typing.cast": lambda _m, args, _k, _n: args[1] if len(args) > 1 else Value(),
}  # fmt: skip


# Methods --------------------------------------------------------------------------------------------------------------


def method(machine: Machine, receiver: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """What a method of a Python object returns."""
    if isinstance(receiver, Sequence):
        return _sequence_method(machine, receiver, name, args, node)
    if isinstance(receiver, Mapping):
        return _mapping_method(machine, receiver, name, args, kwargs, node)
    if isinstance(receiver, Host):
        return _host_method(machine, receiver, name, args, kwargs, node)
    if isinstance(receiver, Array):
        return _array_method(machine, receiver, name, args, kwargs, node)
    parts = [receiver, *args, *kwargs.values()]
    return Value(mix(name, *(each.sym for each in parts)), origins_of(parts))


def _sequence_method(machine: Machine, owner: Sequence, name: str, args: Args, node: ast.AST) -> Value:
    known = owner.items
    given = args[0] if args else Value()
    if name in {"append", "add", "appendleft", "insert"}:
        new = args[-1] if args else Value()
        machine.torch.on_keep(machine, owner, new, node)
        if known is not None and not (owner.made < machine.round and len(known) > 8):
            front = name == "appendleft" or (name == "insert" and len(args) > 1 and getattr(args[0], "value", None) == 0)
            machine.write_items(owner, [new, *known] if front else [*known, new], None, node)
        else:
            machine.write_items(owner, None, joined([*owner.each()[-2:], new], machine.round), node)
        return const(None)
    if name in {"extend", "update", "extendleft"}:
        items = expressions.items(machine, given, node)
        if known is not None and items is not None:
            machine.write_items(owner, [*known, *items], None, node)
        else:
            machine.write_items(
                owner, None, joined([*owner.each(), expressions.item_of(machine, given, node)], machine.round), node
            )
        return const(None)
    if name in {"pop", "popleft", "remove", "clear", "discard"}:
        return _removed(machine, owner, name, args, node)
    if name in {"index", "count", "remove", "sort"}:
        if any(isinstance(each, Tensor) and each.on_gpu for each in owner.each()):
            hazard = "CG206" if name == "sort" else "CG205"
            machine.report(hazard, node, f"{quoted(node)} compares GPU tensors on the host")
        return number(mix(name, owner.sym))
    if name in {"copy", "union", "difference", "intersection", "__iter__"}:
        return Sequence(owner.kind, known and list(known), machine.round, owner.rest)
    if name in {"reverse", "rotate"}:
        if known is not None:
            machine.write_items(owner, list(reversed(known)) if name == "reverse" else [*known[-1:], *known[:-1]], None, node)
        return const(None)
    return Value(mix(name, owner.sym))


def _removed(machine: Machine, owner: Sequence, name: str, args: Args, node: ast.AST) -> Value:
    if name == "remove" and any(isinstance(each, Tensor) and each.on_gpu for each in (*args, *owner.each())):
        machine.report("CG205", node, f"{quoted(node)} compares GPU tensors on the host")
    if name == "clear":
        if (id(owner), "items") not in machine.read_slots:
            machine.emptied.add((id(owner), "items"))
        machine.write_items(owner, [], None, node)
        return const(None)
    items = expressions.held(machine, owner, node)
    if items and name in {"pop", "popleft"}:
        place = args[0].value if args and isinstance(args[0], Host) and isinstance(args[0].value, int) else -1
        place = 0 if name == "popleft" else place
        if -len(items) <= place < len(items):
            left = list(items)
            found = left.pop(place)
            machine.write_items(owner, left, None, node)
            return found
    return expressions.item_of(machine, owner, node)


def _mapping_method(machine: Machine, owner: Mapping, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    given = args[0] if args else Value()
    key = key_of(given)
    if name in {"get", "pop", "setdefault"}:
        if key is not None and key in owner.slots:
            found = machine.read(owner, key, owner.slots[key], node)
            if name == "pop":
                machine.journal.append((owner.slots, key, owner.slots.pop(key)))
            return expressions.chosen(machine, found, given)
        default = args[1] if len(args) > 1 else kwargs.get("default", const(None))
        if name == "setdefault" and key is not None and owner.rest is None:
            machine.write(owner, key, default, node)
            return default
        if key is not None and owner.rest is None:
            return default
        return expressions.chosen(machine, joined([*owner.each(), default], machine.round) or Value(), given)
    if name == "items":
        if owner.rest is None:
            pairs: Args = [
                Sequence(
                    "tuple",
                    [const(each) if not isinstance(each, tuple) else Value(), machine.read(owner, each, value, node)],
                    machine.round,
                )
                for each, value in list(owner.slots.items())
            ]
            return Sequence("iterator", pairs, machine.round)
        pair = Sequence("tuple", [Host("str"), joined(owner.each(), machine.round) or Value()], machine.round)
        return Sequence("iterator", None, machine.round, pair)
    if name == "values":
        items = (
            None
            if owner.rest is not None
            else [machine.read(owner, each, value, node) for each, value in list(owner.slots.items())]
        )
        return Sequence("iterator", items, machine.round, joined(owner.each(), machine.round))
    if name == "keys":
        return Sequence(
            "keys", None if owner.rest is not None else [const(each) for each in owner.slots], machine.round, Host("str")
        )
    if name == "update":
        new = _dict(machine, args, kwargs, node)
        if isinstance(new, Mapping):
            for each, value in new.slots.items():
                machine.write(owner, each, value, node)
            owner.rest = new.rest or owner.rest
        return const(None)
    if name == "copy":
        return _dict(machine, [owner], {}, node)
    if name == "clear":
        for each in list(owner.slots):
            machine.journal.append((owner.slots, each, owner.slots.pop(each)))
        return const(None)
    return Value(mix(name, owner.sym))


def _host_method(machine: Machine, owner: Host, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    parts = [owner, *args, *kwargs.values()]
    if name in {"format", "join"} and (owner.kind in {"str", ""}):
        for each in (*args, *kwargs.values()):
            readsquoted(machine, each, node)
    if owner.kind == "size":
        return (
            Sequence("list", None, machine.round, number(mix(name, owner.sym)))
            if name == "tolist"
            else number(mix(name, owner.sym))
        )
    known = [each.value for each in args if isinstance(each, Host) and each.known]
    if owner.known and isinstance(owner.value, str) and len(known) == len(args) and not kwargs and name in _STRING_METHODS:
        try:
            result = getattr(owner.value, name)(*known)
        except (TypeError, ValueError):
            return Value()
        if isinstance(result, list):
            return Sequence("list", [const(each, origins_of(parts)) for each in result], machine.round)
        return const(result, origins_of(parts))
    kind = "bool" if name.startswith(("is", "starts", "ends")) else owner.kind
    return Host(kind, sym=mix(name, *(each.sym for each in parts)), origins=origins_of(parts))


_STRING_METHODS = {"lower", "upper", "strip", "lstrip", "rstrip", "split", "rsplit", "startswith", "endswith", "replace", "title",
                   "isdigit", "isalpha", "find", "removeprefix", "removesuffix", "partition", "capitalize", "zfill"}  # fmt: skip


def _array_method(machine: Machine, owner: Array, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    parts = [owner, *args, *kwargs.values()]
    if name in {"fill", "sort", "put", "partition", "resize"}:
        machine.mutate(owner, node, *args)
        return const(None)
    if name in {"item", "__float__", "__int__", "tolist"}:
        return number(mix(name, owner.sym), origins_of(parts))
    return Array(sym=mix(name, *(each.sym for each in parts)), origins=origins_of(parts))
