"""Make lists, dicts, sets and deques, and call their methods and those of strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.items import items_of, key_of, picked, sample_item
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    External,
    Host,
    Instance,
    Mapping,
    Object,
    Sequence,
    Tensor,
    Value,
    const,
    joined,
    number,
    origins_of,
    quoted,
    tensors_in,
)

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine
    from cudagraph_skill.check.interpreter.values import Origins

_LONGEST = 100_000  # characters that a method of a known string may make

Args = list[Value]
Kwargs = dict[str, Value]


def read_text(machine: Machine, value: Value, node: ast.AST) -> None:
    """Report that the text of a value is wanted: that of a GPU tensor needs its numbers."""
    if any(tensor.on_gpu for tensor in tensors_in(value)):
        machine.report("CG204", node, f"the text of the GPU tensor {quoted(node)} needs its values on the host")


def container(kind: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    """Return the builtin that makes a list, tuple, set or reversed iterator."""

    def make(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        del kwargs
        if not args:
            return Sequence(kind, [], machine.round)
        items = items_of(machine, args[0], node)
        if items is None:
            made = Sequence(kind, None, machine.round, sample_item(machine, args[0], node))
            made.origins = args[0].origins
            return made
        return Sequence(kind, list(reversed(items)) if kind == "reversed" else items, machine.round)

    return make


def make_dict(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what `dict` makes of its arguments."""
    made = Mapping(machine.round)
    if args and isinstance(args[0], Mapping):
        made.slots.update(args[0].slots)
        made.rest = args[0].rest
    elif args:
        for pair in items_of(machine, args[0], node) or [sample_item(machine, args[0], node)]:
            parts = items_of(machine, pair, node, 2)
            key = key_of(parts[0]) if parts else None
            if parts is None or len(parts) < 2 or key is None:
                made.rest = parts[1] if parts and len(parts) > 1 else Value()
            else:
                made.slots[key] = parts[1]
    made.slots.update(kwargs)
    return made


def copy_of(machine: Machine, value: Value, depth: int = 4) -> Value:
    """Return a deep copy: the same structure on memory of its own."""
    if not depth:
        return value
    if isinstance(value, Tensor):
        new = Tensor(value.device, value.ndim, value.dtype, None, value.sym, value.origins, pinned=value.pinned)
        new.parameter = value.parameter
        return new
    if isinstance(value, Sequence):
        items = None if value.items is None else [copy_of(machine, item, depth - 1) for item in value.items]
        return Sequence(value.kind, items, machine.round, value.rest and copy_of(machine, value.rest, depth - 1))
    if isinstance(value, Instance):
        new_instance = Instance(value.cls, machine.round)
        new_instance.slots = {name: copy_of(machine, item, depth - 1) for name, item in value.slots.items()}
        return new_instance
    if isinstance(value, Object):
        twin = Object(value.name, [copy_of(machine, item, depth - 1) for item in value.args], value.kwargs, machine.round)
        twin.slots = {name: copy_of(machine, item, depth - 1) for name, item in value.slots.items()}
        twin.site = value.site
        return twin
    if isinstance(value, Mapping):
        made = Mapping(machine.round, value.rest)
        made.slots = {name: copy_of(machine, item, depth - 1) for name, item in value.slots.items()}
        return made
    return value


def chain(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    """Return the items of several iterables as one iterator."""
    columns = [items_of(machine, item, node) for item in args]
    if all(column is not None for column in columns):
        return Sequence("iterator", [item for column in columns for item in column or []], machine.round)
    rest = joined([sample_item(machine, item, node) for item in args], machine.round)
    return Sequence("iterator", None, machine.round, rest)


def make_defaultdict(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a dict whose missing items a factory makes."""
    made = make_dict(machine, args[1:], kwargs, node)
    if isinstance(made, Mapping) and args:
        made.factory = args[0]
    return made


def make_counter(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a dict whose missing items are 0."""
    made = make_dict(machine, [arg for arg in args if isinstance(arg, Mapping)], kwargs, node)
    if isinstance(made, Mapping):
        made.factory = External("builtins.int")
        made.rest = Value() if args and not isinstance(args[0], Mapping) else made.rest
    return made


def sequence_method(machine: Machine, owner: Sequence, name: str, args: Args, node: ast.AST) -> Value:
    """Return what a method of a list, tuple, set or deque returns."""
    if name in {"append", "add", "appendleft", "insert"}:
        return _added(machine, owner, name, args, node)
    if name in {"extend", "update", "extendleft"}:
        return _extended(machine, owner, args[0] if args else Value(), node)
    if name in {"pop", "popleft", "remove", "clear", "discard"}:
        return _removed(machine, owner, name, args, node)
    if name in {"index", "count", "sort"}:
        if any(isinstance(item, Tensor) and item.on_gpu for item in owner.each()):
            hazard = "CG206" if name == "sort" else "CG205"
            machine.report(hazard, node, f"{quoted(node)} compares GPU tensors on the host")
        return number(mix(name, owner.sym))
    if name in {"copy", "union", "difference", "intersection", "__iter__"}:
        return Sequence(owner.kind, owner.items and list(owner.items), machine.round, owner.rest)
    if name in {"reverse", "rotate"}:
        if (known := owner.items) is not None:
            machine.write_items(owner, list(reversed(known)) if name == "reverse" else [*known[-1:], *known[:-1]], None, node)
        return const(None)
    return Value(mix(name, owner.sym))


def _added(machine: Machine, owner: Sequence, name: str, args: Args, node: ast.AST) -> Value:
    known, new = owner.items, args[-1] if args else Value()
    if machine.torch.keeping is not None:
        machine.torch.keeping(machine, owner, new, node)
    if known is None or (owner.made < machine.round and len(known) > 8):
        machine.write_items(owner, None, joined([*owner.each()[-2:], new], machine.round), node)
    elif name == "appendleft" or (name == "insert" and len(args) > 1 and getattr(args[0], "value", None) == 0):
        machine.write_items(owner, [new, *known], None, node)
    else:
        machine.write_items(owner, [*known, new], None, node)
    return const(None)


def _extended(machine: Machine, owner: Sequence, given: Value, node: ast.AST) -> Value:
    items = items_of(machine, given, node)
    if owner.items is not None and items is not None:
        machine.write_items(owner, [*owner.items, *items], None, node)
    else:
        machine.write_items(owner, None, joined([*owner.each(), sample_item(machine, given, node)], machine.round), node)
    return const(None)


def _removed(machine: Machine, owner: Sequence, name: str, args: Args, node: ast.AST) -> Value:
    if name == "remove" and any(isinstance(part, Tensor) and part.on_gpu for part in (*args, *owner.each())):
        machine.report("CG205", node, f"{quoted(node)} compares GPU tensors on the host")
    if name == "clear":
        if (id(owner), "items") not in machine.read_slots:
            machine.emptied.add((id(owner), "items"))
        machine.write_items(owner, [], None, node)
        return const(None)
    items = machine.known_items(owner, node)
    if items and name in {"pop", "popleft"}:
        place = args[0].value if args and isinstance(args[0], Host) and isinstance(args[0].value, int) else -1
        place = 0 if name == "popleft" else place
        if -len(items) <= place < len(items):
            left = list(items)
            item = left.pop(place)
            machine.write_items(owner, left, None, node)
            return item
    return sample_item(machine, owner, node)


def mapping_method(machine: Machine, owner: Mapping, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a dict returns."""
    if name in {"get", "pop", "setdefault"}:
        return _item_or_default(machine, owner, name, args, kwargs, node)
    if name in {"items", "values", "keys"}:
        return _view_of_mapping(machine, owner, name, node)
    if name == "update":
        new = make_dict(machine, args, kwargs, node)
        if isinstance(new, Mapping):
            for key, value in new.slots.items():
                machine.write(owner, key, value, node)
            owner.rest = new.rest or owner.rest
        return const(None)
    if name == "copy":
        return make_dict(machine, [owner], {}, node)
    if name == "clear":
        for key in list(owner.slots):
            machine.journal.append((owner.slots, key, owner.slots.pop(key)))
        return const(None)
    return Value(mix(name, owner.sym))


def _item_or_default(machine: Machine, owner: Mapping, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what `get`, `pop` and `setdefault` return: the item of a known key, else the default or any item."""
    given = args[0] if args else Value()
    key = key_of(given)
    if key is not None and key in owner.slots:
        item = machine.read(owner, key, owner.slots[key], node)
        if name == "pop":
            machine.journal.append((owner.slots, key, owner.slots.pop(key)))
        return picked(machine, item, given)
    default = args[1] if len(args) > 1 else kwargs.get("default", const(None))
    if key is None or owner.rest is not None:
        return picked(machine, joined([*owner.each(), default], machine.round) or Value(), given)
    if name == "setdefault":
        machine.write(owner, key, default, node)
    return default


def _view_of_mapping(machine: Machine, owner: Mapping, name: str, node: ast.AST) -> Value:
    """Return what `items`, `values` and `keys` return: each item if all keys are known, else one that stands for all."""
    known = owner.rest is None
    if name == "keys":
        return Sequence("keys", [const(key) for key in owner.slots] if known else None, machine.round, Host("str"))
    values = [(key, machine.read(owner, key, value, node)) for key, value in list(owner.slots.items())] if known else []
    any_value = joined(owner.each(), machine.round)
    if name == "values":
        return Sequence("iterator", [value for _, value in values] if known else None, machine.round, any_value)
    if not known:
        pair = Sequence("tuple", [Host("str"), any_value or Value()], machine.round)
        return Sequence("iterator", None, machine.round, pair)
    # A tuple as a key stands for an object or a tensor, of which the name alone is known.
    keys = [Value() if isinstance(key, tuple) else const(key) for key, _ in values]
    pairs: Args = [Sequence("tuple", [key, value], machine.round) for key, (_, value) in zip(keys, values, strict=True)]
    return Sequence("iterator", pairs, machine.round)


def host_method(machine: Machine, owner: Host, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a string or number returns."""
    parts = [owner, *args, *kwargs.values()]
    if name in {"format", "join"} and (owner.kind in {"str", ""}):
        for part in (*args, *kwargs.values()):
            read_text(machine, part, node)
    if owner.kind == "size":
        extent = number(mix(name, owner.sym))
        return Sequence("list", None, machine.round, extent) if name == "tolist" else extent
    if name in _STRING_METHODS and isinstance(owner.value, str) and not kwargs:
        known = [arg.value for arg in args if isinstance(arg, Host) and arg.known]
        if len(known) == len(args):
            return _of_string(machine, owner.value, name, known, origins_of(parts))
    kind = "bool" if name.startswith(("is", "starts", "ends")) else owner.kind
    return Host(kind, sym=mix(name, *(part.sym for part in parts)), origins=origins_of(parts))


def _size(value: object) -> int:
    return len(value) if isinstance(value, str) else 1


def _of_string(machine: Machine, text: str, name: str, args: list[Any], origins: Origins) -> Value:
    """Run a method of a string that is known, on arguments that are known."""
    if len(text) * max(map(_size, args), default=1) > _LONGEST or any(isinstance(arg, int) and arg > _LONGEST for arg in args):
        return Host("str", sym=mix(name, text), origins=origins)
    try:
        result = getattr(text, name)(*args)
    except (TypeError, ValueError):
        return Value()
    if isinstance(result, list):
        return Sequence("list", [const(part, origins) for part in result], machine.round)
    return const(result, origins)


_STRING_METHODS = {"lower", "upper", "strip", "lstrip", "rstrip", "split", "rsplit", "startswith", "endswith", "replace", "title",
                   "isdigit", "isalpha", "find", "removeprefix", "removesuffix", "partition", "capitalize", "zfill"}  # fmt: skip
