"""Call Python's built-in functions."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.attributes import Super, attribute, set_attribute
from cudagraph_skill.check.interpreter.items import items_of, picked, sample_item
from cudagraph_skill.check.interpreter.iteration import run_generator
from cudagraph_skill.check.interpreter.operators import binary
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.truth import truth_of
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Array,
    Bound,
    Class,
    External,
    Function,
    Host,
    Instance,
    Mapping,
    Method,
    Object,
    Sequence,
    Tensor,
    Value,
    const,
    is_none,
    joined,
    number,
    origins_of,
    quoted,
    tensors_in,
)
from cudagraph_skill.check.library import containers

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_STEPS = 64  # steps of a range that are told apart

Args = list[Value]
Kwargs = dict[str, Value]


def builtin(name: str) -> Value:
    """Return what a name means that no scope defines."""
    return External(f"builtins.{name}") if hasattr(builtins, name) else Value(mix("name", name))


def _number(kind: Callable[[Any], Any]) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def convert(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
        if not args:
            return const(kind())  # type: ignore[call-arg]
        value = args[0]
        if isinstance(value, Tensor):
            return read_number(machine, value, node, kind.__name__)
        if isinstance(value, Instance):
            method = value.cls.find(f"__{kind.__name__}__") or value.cls.find("__index__")
            return machine.call(Bound(value, method[1]), [], {}, node) if method else Host(kind.__name__)
        if isinstance(value, Host) and value.known:
            try:
                return const(kind(value.value), value.origins)
            except (TypeError, ValueError, OverflowError):
                return number(origins=value.origins)
        if isinstance(value, (Sequence, Mapping)) and kind is bool:
            return Host("bool", sym=mix("bool", value.sym), origins=origins_of([value]))
        return Host(kind.__name__, sym=mix(kind.__name__, value.sym), origins=value.origins)

    return convert


def read_number(machine: Machine, tensor: Tensor, node: ast.AST, how: str) -> Value:
    """Return a Python number out of a tensor."""
    if tensor.on_gpu:
        machine.report("CG201", node, f"{quoted(node)} reads a value from the GPU on the host")
        return number()
    item = machine.call(Method(tensor, "item"), [], {}, node)
    return Host("number", sym=mix(how, item.sym), origins=item.origins)


def _print(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    for arg in args:
        containers.read_text(machine, arg, node)
    if not any(tensor.on_gpu for arg in args for tensor in tensors_in(arg)):
        machine.report("CG108", node, f"{quoted(node)} runs at capture only, not at a replay")
    del kwargs
    return const(None)


def _str(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    for arg in args[:1]:
        containers.read_text(machine, arg, node)
        if isinstance(arg, Host) and arg.known and not isinstance(arg.value, (int, float, str, bool, type(None))):
            break
        if isinstance(arg, Host) and arg.known:
            return const(str(arg.value), arg.origins)
    return Host("str", sym=mix("str", *(arg.sym for arg in args)), origins=origins_of(args))


def _len(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if not args:
        return number()
    value = args[0]
    unknown = number(mix("len", value.sym), value.origins)
    if isinstance(value, Sequence):
        return _length_of_sequence(machine, value, node)
    if isinstance(value, Mapping):
        return unknown if value.rest is not None else const(len(value.slots))
    if isinstance(value, Host) and isinstance(value.value, (str, bytes, tuple)):
        return const(len(value.value), value.origins)
    if isinstance(value, Tensor):
        return const(value.first) if value.first is not None else Host("extent", sym=mix("len", min(value.storages)))
    if type(value) is Value or isinstance(value, Array):  # see `_length_of_sequence`
        return Host("extent", sym=unknown.sym, origins=value.origins)
    method = value.cls.find("__len__") if isinstance(value, Instance) else None
    if method:
        return machine.call(Bound(value, method[1]), [], {}, node)
    items = items_of(machine, value, node) if isinstance(value, (Instance, Object)) else None
    return unknown if items is None else const(len(items))


def _length_of_sequence(machine: Machine, value: Sequence, node: ast.AST) -> Value:
    items = machine.known_items(value, node)
    slot = (id(value), "items")
    if slot in machine.read_slots:
        message = f"{quoted(node)} grows at every call; the graph keeps the length that it has at capture"
        return number(origins=machine.origin("CG302", node, message, slot))
    # A length of which nothing is known is taken to be as fixed as a shape: a batch has as many items as the one before.
    return Host("extent", sym=mix("len", value.sym), origins=value.origins) if items is None else const(len(items))


def _range(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if _has_gpu_tensor(args):
        machine.report("CG207", node, f"{quoted(node)} needs the value of a GPU tensor as a loop count")
        return Sequence("range", None, machine.round, number())
    origins = origins_of(args)
    bounds = [arg.value for arg in args if isinstance(arg, Host) and isinstance(arg.value, int)]
    try:
        steps = range(*bounds) if args and len(bounds) == len(args) else None
    except (TypeError, ValueError):
        return Value()
    if steps is not None and len(steps) <= _STEPS:
        made = Sequence("range", [const(step, origins) for step in steps], machine.round)
    else:
        kind = "extent" if any(isinstance(arg, Host) and arg.kind == "extent" for arg in args) else "number"
        step = Host(kind, sym=mix("range", *(arg.sym for arg in args)), origins=origins)
        made = Sequence("range", None, machine.round, step)
    made.origins = origins
    return made


def _has_gpu_tensor(values: Args) -> bool:
    return any(isinstance(value, Tensor) and value.on_gpu for value in values)


def _known_numbers(values: Args) -> list[int | float]:
    """Return the values that are known numbers."""
    return [value.value for value in values if isinstance(value, Host) and isinstance(value.value, (int, float))]


def _called(node: ast.AST, otherwise: str) -> str:
    """Return the name by which a builtin is called, `otherwise` where it has another name."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else otherwise


def _enumerate(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    start = args[1] if len(args) > 1 else kwargs.get("start", const(0))
    items = items_of(machine, args[0], node)
    if items is None:
        pair = Sequence("tuple", [number(mix("place", id(node))), sample_item(machine, args[0], node)], machine.round)
        return Sequence("iterator", None, machine.round, pair)
    first = start.value if isinstance(start, Host) and isinstance(start.value, int) else 0
    pairs: Args = [Sequence("tuple", [const(first + place), item], machine.round) for place, item in enumerate(items)]
    return Sequence("iterator", pairs, machine.round)


def zip_items(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    """Return what `zip` yields: rows where all columns are known."""
    columns = [items_of(machine, arg, node) for arg in args]
    if columns and all(column is not None for column in columns):
        rows: Args = [
            Sequence("tuple", list(row), machine.round) for row in zip(*(column or [] for column in columns), strict=False)
        ]
        return Sequence("iterator", rows, machine.round)
    each_item = [sample_item(machine, arg, node) for arg in args]
    return Sequence("iterator", None, machine.round, Sequence("tuple", each_item, machine.round))


def _map(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Value()
    columns = [items_of(machine, arg, node) for arg in args[1:]]
    if all(column is not None for column in columns):
        rows = zip(*(column or [] for column in columns), strict=False)
        return Sequence("iterator", [machine.call(args[0], list(row), {}, node) for row in rows], machine.round)
    result = machine.call(args[0], [sample_item(machine, arg, node) for arg in args[1:]], {}, node)
    return Sequence("iterator", None, machine.round, result)


def _filter(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Value()
    item = sample_item(machine, args[1], node)
    tested = item if is_none(args[0]) else machine.call(args[0], [item], {}, node)
    truth_of(machine, tested, node)
    return Sequence("iterator", None, machine.round, item)


def _sum(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    items = items_of(machine, args[0], node)
    values = items or [sample_item(machine, args[0], node)]
    if any(isinstance(value, Tensor) for value in values):
        total: Value = const(0)
        for item in values:
            total = binary(machine, ast.Add, total, item, node)
        return total
    known = _known_numbers(items or [])
    if items is not None and len(known) == len(items):
        return const(sum(known), origins_of(items))
    return number(mix("sum", *(value.sym for value in values)), origins_of(values))


def _extreme(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    values = args if len(args) > 1 else items_of(machine, args[0], node) or [sample_item(machine, args[0], node)]
    compared = _by_key(machine, values, kwargs, node)
    if _has_gpu_tensor(compared) and (len(compared) > 1 or len(args) == 1):
        machine.report("CG206", node, f"{quoted(node)} compares GPU tensors on the host")
        return next((value for value in values if isinstance(value, Tensor)), values[0])
    return _extreme_of(machine, _called(node, "max"), values, "key" in kwargs)


def _extreme_of(machine: Machine, name: str, values: Args, by_key: bool) -> Value:
    """Return the least or greatest of values that are compared without reading the GPU."""
    known = _known_numbers(values)
    if len(known) == len(values) and not by_key:
        return const(min(known) if name == "min" else max(known), origins_of(values))
    if all(isinstance(value, Host) for value in values):
        return number(mix(name, *(value.sym for value in values)), origins_of(values))
    return (joined(values, machine.round) or Value()).marked(origins_of(values))


def _by_key(machine: Machine, values: Args, kwargs: Kwargs, node: ast.AST) -> Args:
    """Return what `max`, `min` and `sorted` compare: the values, or what `key` makes of each."""
    return [machine.call(kwargs["key"], [value], {}, node) for value in values] if "key" in kwargs else values


def _sorted(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    items = items_of(machine, args[0], node)
    values = items or [sample_item(machine, args[0], node)]
    if _has_gpu_tensor(_by_key(machine, values, kwargs, node)) and (items is None or len(items) > 1):
        machine.report("CG206", node, f"{quoted(node)} compares GPU tensors on the host")
    if items is not None and "key" not in kwargs and all(isinstance(value, Host) and value.known for value in items):
        try:
            return Sequence("list", sorted(items, key=lambda value: value.value), machine.round)  # type: ignore[attr-defined]
        except TypeError:
            return Value()
    return Sequence("list", items, machine.round, joined(values, machine.round))


def _any(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    items = items_of(machine, args[0], node)
    values = items if items is not None else [sample_item(machine, args[0], node)]
    if _has_gpu_tensor(values):
        machine.report("CG206", node, f"{quoted(node)} asks for the truth of GPU tensors on the host")
        return Host("bool")
    truths = [truth_of(machine, value, node)[0] for value in values]
    name = _called(node, "any")
    decisive = name == "any"  # the truth of one item that decides alone
    if items is not None and (decisive in truths or None not in truths):
        return const(decisive if decisive in truths else not decisive, origins_of(values))
    return Host("bool", sym=mix(name, *(value.sym for value in values)), origins=origins_of(values))


def _numeric(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if any(isinstance(arg, Tensor) for arg in args):
        return machine.call(External(f"torch.{_called(node, 'abs')}"), args, {}, node)
    name, known = _called(node, ""), _known_numbers(args)
    if len(known) == len(args) and name in {"abs", "round"}:
        try:
            return const(getattr(builtins, name)(*known), origins_of(args))
        except (TypeError, ValueError, OverflowError):
            return number(origins=origins_of(args))
    return number(mix(name, *(arg.sym for arg in args)), origins_of(args))


def _isinstance(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    del machine, node
    if len(args) < 2:
        return Host("bool")
    value, wanted = args[0], args[1]
    if isinstance(wanted, Host) and wanted.known:
        return Host("bool")
    answers = [_is_a(value, cls) for cls in (wanted.each() if isinstance(wanted, Sequence) else [wanted])]
    if True in answers:
        return const(True)
    return Host("bool", sym=mix("isinstance", value.sym, wanted.sym)) if None in answers or not answers else const(False)


_HOST_TYPES = {"builtins.int", "builtins.float", "builtins.str", "builtins.bool", "builtins.list", "builtins.tuple",
               "builtins.dict", "numbers.Number", "numbers.Real", "collections.abc.Mapping", "collections.abc.Sequence"}  # fmt: skip


def _is_a(value: Value, wanted: Value) -> bool | None:
    """Tell whether a value is of a type; None where that is not known."""
    if type(value) is Value:
        return None
    if isinstance(wanted, Class):
        return _is_of_class(value, wanted)
    answer = _ANSWERS.get(type(value))
    return answer(value, wanted.name) if answer and isinstance(wanted, External) else None


def _is_of_class(value: Value, wanted: Class) -> bool | None:
    if isinstance(value, Instance):
        return None if value.guessed else wanted in value.cls.line()
    return False


def _tensor_is(value: Tensor, name: str) -> bool | None:
    if name == "torch.Tensor":
        return None if value.optional else True
    return False if name in _HOST_TYPES else None


def _host_is(value: Host, name: str) -> bool | None:
    if name in {"torch.Tensor", "torch.nn.Module"}:
        return False
    kind = getattr(builtins, name[9:], None) if name.startswith("builtins.") else None
    return isinstance(value.value, kind) if value.known and isinstance(kind, type) else None


def _object_is(value: Object, name: str) -> bool | None:
    if not name.startswith("torch."):
        return None
    return value.name == name or (name == "torch.nn.Module" and value.name.startswith("torch.nn."))


_ANSWERS: dict[type, Callable[[Any, str], bool | None]] = {
    Tensor: _tensor_is,
    Host: _host_is,
    Object: _object_is,
    Sequence: lambda value, name: value.kind == name[9:] if name.startswith("builtins.") else None,
    Mapping: lambda _, name: name == "builtins.dict" if name.startswith("builtins.") else None,
    Instance: lambda value, name: (name in value.cls.libraries() or None) if name.startswith("torch.nn.") else None,
}


def _hasattr(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    del machine, node
    if len(args) < 2 or not isinstance(args[1], Host) or not isinstance(args[1].value, str):
        return Host("bool")
    owner, name = args[0], args[1].value
    if isinstance(owner, Instance):
        if name in owner.slots or owner.cls.find(name):
            return const(True)
        known = not owner.guessed and not any(
            not library.startswith(("torch.nn.Module", "builtins.", "abc.")) for library in owner.cls.libraries()
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
            options: Args = [option for option in owner.slots.values() if isinstance(option, (Tensor, Instance, Object))]
            return picked(machine, joined(options, machine.round) or Value(), name)
        return Value(mix("getattr", owner.sym, name.sym), name.origins)
    missing = _hasattr(machine, args, kwargs, node)
    if len(args) > 2 and isinstance(missing, Host) and missing.value is False:
        return args[2]
    value = attribute(machine, owner, name.value, node)
    return picked(machine, value, name)


def _setattr(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if len(args) == 3 and isinstance(args[1], Host) and isinstance(args[1].value, str):
        target = ast.copy_location(ast.Attribute(ast.Name("_", ast.Load()), args[1].value, ast.Store()), node)
        set_attribute(machine, target, args[0], args[2])
    return const(None)


def _id(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if args and isinstance(args[0], Tensor):
        return identity(machine, args[0], node)
    return number(mix("id", args[0].sym if args else 0))


def identity(machine: Machine, tensor: Tensor, node: ast.AST) -> Value:
    """Return a number that tells tensors apart: eager code sees a new one for new inputs, a replay never does."""
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
        item = advanced(machine, source, node)
        if machine.inside and source.made < machine.round:
            message = f"{quoted(node)} advances an iterator at capture only; every replay repeats what it gave then"
            origins = machine.origin("CG105", node, message)
            if isinstance(item, Host):
                return Host(item.kind, origins=item.origins | origins)
            machine.emit(origins)
        return item
    if isinstance(source, Instance):
        method = source.cls.find("__next__")
        if method:
            return machine.call(Bound(source, method[1]), [], {}, node)
    return sample_item(machine, source, node)


def advanced(machine: Machine, source: Object, node: ast.AST) -> Value:
    """Return the next item of an iterator."""
    place = source.slots.get("place")
    count = place.value if isinstance(place, Host) and isinstance(place.value, int) else 0
    source.slots["place"] = const(count + 1)
    if source.name == "itertools.count":
        first = source.args[0].value if source.args and isinstance(source.args[0], Host) else 0
        return const((first if isinstance(first, int) else 0) + count)
    if source.name == "generator":
        yielded: Args = []
        if len(source.args) and len(machine.frames) < 20:

            def keep(item: Value) -> int:
                yielded.append(item)
                return 0

            run_generator(machine, source, keep)
        return yielded[min(count, len(yielded) - 1)] if yielded else Value()
    inner = source.args[0] if source.args else Value()
    items = items_of(machine, inner, node)
    if items:
        return items[count % len(items)]
    return sample_item(machine, inner, node)


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
    return Value(mix("type", *(arg.sym for arg in args)))


def _super(machine: Machine, args: Args, _: Kwargs, __: ast.AST) -> Value:
    del machine
    return Super(args[0], args[1]) if len(args) == 2 and isinstance(args[0], Class) else Value()


def _slice(machine: Machine, args: Args, _: Kwargs, __: ast.AST) -> Value:
    bounds = [const(None), *args] if len(args) == 1 else list(args)
    return Sequence("slice", [*bounds, *[const(None)] * (3 - len(bounds))], machine.round)


def _nothing(_: Machine, __: Args, ___: Kwargs, ____: ast.AST) -> Value:
    return const(None)


BUILTINS: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    "int": _number(int), "float": _number(float), "bool": _number(bool), "complex": _number(complex),
    "print": _print, "str": _str, "repr": _str, "format": _str, "ascii": _str,
    "len": _len, "range": _range, "enumerate": _enumerate, "zip": zip_items, "map": _map, "filter": _filter, "sum": _sum,
    "max": _extreme, "min": _extreme, "sorted": _sorted, "any": _any, "all": _any,
    "abs": _numeric, "round": _numeric, "divmod": _numeric, "pow": _numeric,
    "list": containers.container("list"), "tuple": containers.container("tuple"), "set": containers.container("set"), "frozenset": containers.container("set"),
    "reversed": containers.container("reversed"), "dict": containers.make_dict,
    "isinstance": _isinstance, "hasattr": _hasattr, "getattr": _getattr, "setattr": _setattr, "id": _id,
    "iter": _iter, "next": _next, "open": _open, "type": _type, "super": _super, "slice": _slice, "delattr": _nothing, "breakpoint": _nothing,
}  # fmt: skip
