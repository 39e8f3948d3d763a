"""Read, set and delete `owner[index]`, and say which items something has."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.assumptions import assumed, assuming, picks_by_mask
from cudagraph_skill.check.interpreter.attributes import bind_member
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    Array,
    Choice,
    Class,
    External,
    Function,
    Host,
    Instance,
    Mapping,
    Object,
    Partial,
    Sequence,
    Tensor,
    Value,
    const,
    is_none,
    joined,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_ROWS = 12  # rows of a tensor that a loop goes through one by one
_MANY = 8  # rows from which a loop over them is worth a word

# Items ----------------------------------------------------------------------------------------------------------------


_NESTED = 4  # tuples in each other of which a key is made


def item_at(machine: Machine, owner: Value, index: Value, node: ast.AST) -> Value:
    """Return what `owner[index]` is."""
    if isinstance(index, Tensor) and index.on_gpu and isinstance(owner, (Sequence, Array, Host)):
        machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as a Python index")
        return sample_item(machine, owner, node)
    if picks_by_mask(machine, owner, node):
        mask = assumed(index)
        mask.dtype = "bool"
        return _item_of_tensor(machine, assumed(owner), mask, node)
    read = _ITEMS.get(type(owner))
    return (
        read(machine, owner, index, node) if read else Value(mix("item", owner.sym, index.sym), owner.origins | index.origins)
    )


def _item_of_tensor(machine: Machine, owner: Tensor, index: Value, node: ast.AST) -> Value:
    return assuming(machine, [owner, index], lambda: machine.library.index(machine, owner, index, node))


def _item_of_instance(machine: Machine, owner: Instance, index: Value, node: ast.AST) -> Value:
    member = owner.cls.find("__getitem__")
    if member:
        return machine.call(bind_member(member[1], owner), [index], {}, node)
    return machine.library.module_item(machine, owner, index, node)


def _item_of_object(machine: Machine, owner: Object, index: Value, node: ast.AST) -> Value:
    return machine.library.object_item(machine, owner, index, node)


def _item_of_choice(machine: Machine, owner: Choice, index: Value, node: ast.AST) -> Value:
    return joined([item_at(machine, option, index, node) for option in owner.options], machine.round) or Value()


def _item_of_array(_: Machine, owner: Array, index: Value, __: ast.AST) -> Value:
    return Array(sym=mix("item", owner.sym, index.sym), origins=owner.origins | index.origins)


def _item_of_external(machine: Machine, owner: External, index: Value, node: ast.AST) -> Value:
    if owner.name == "os.environ":
        return machine.library.environment(machine, index, node)
    return owner  # a type with parameters, such as `Annotated[…]`


def _item_of_function(_: Machine, owner: Function, grid: Value, __: ast.AST) -> Value:
    return Partial(owner, [grid], {}, "launch")  # only kernels of Triton and its like have items: the grid of a launch


def _item_of_class(_: Machine, owner: Class, __: Value, ___: ast.AST) -> Value:
    return owner


def _item_of_host(_: Machine, owner: Host, index: Value, __: ast.AST) -> Value:
    origins = owner.origins | index.origins
    if owner.known and isinstance(index, Host) and index.known:
        try:
            return const(owner.value[index.value], origins)  # type: ignore[index]
        except (TypeError, IndexError, KeyError, ValueError):
            return Value()
    # An extent keeps its kind: a loop over it, or a tensor of that size, depends on a shape.
    kind = "extent" if owner.kind == "size" else owner.kind if owner.kind == "str" else ""
    return Host(kind, sym=mix("item", owner.sym, index.sym), origins=origins)


def _item_of_sequence(machine: Machine, owner: Sequence, index: Value, node: ast.AST) -> Value:
    items = machine.known_items(owner, node)
    if isinstance(index, Host) and index.known and items is not None:
        try:
            item = items[index.value]  # type: ignore[call-overload]
        except (IndexError, TypeError, ValueError):
            return Value()
        if isinstance(item, list):
            return Sequence(owner.kind, item, machine.round)
        return picked(machine, machine.read(owner, index.value, item, node), index)
    if isinstance(index, Sequence) and index.kind == "slice":
        return _slice_of(machine, owner, index, node)
    return picked(machine, sample_item(machine, owner, node), index)


def _slice_of(machine: Machine, owner: Sequence, bounds: Sequence, node: ast.AST) -> Value:
    items = machine.known_items(owner, node)
    # `...` stands for a bound that is not known: it is no bound that Python would take.
    known = [bound.value if isinstance(bound, Host) and bound.known else ... for bound in bounds.each()]
    whole = all(bound is None or isinstance(bound, int) for bound in known) and known[2:] != [0]
    if items is not None and whole and len(known) == 3:
        return Sequence(owner.kind, items[slice(*known)], machine.round)  # type: ignore[arg-type]
    return Sequence(owner.kind, None, machine.round, sample_item(machine, owner, node))


def _item_of_mapping(machine: Machine, owner: Mapping, index: Value, node: ast.AST) -> Value:
    key = key_of(index)
    if key is not None and key in owner.slots:
        return picked(machine, machine.read(owner, key, owner.slots[key], node), index)
    if key is not None and owner.factory is not None and owner.rest is None:
        # A defaultdict makes the item when it is asked for, which is a write.
        machine.write(owner, key, machine.call(owner.factory, [], {}, node), node)
        return picked(machine, owner.slots[key], index)
    # A known key that no slot has may still be among the items whose keys are not known.
    candidates = owner.each() if key is None else [owner.rest] if owner.rest is not None else []
    item = joined(candidates, machine.round)
    return Value(mix("item", owner.sym, index.sym)) if item is None else picked(machine, item, index)


def picked(machine: Machine, item: Value, index: Value) -> Value:
    """Return an item that was picked by an index: if the index changes at every call, the pick is frozen."""
    if not index.origins or isinstance(item, Host) or type(item) is Value:
        return item.marked(index.origins)
    # A tensor or an object carries no mark into GPU work, so the index is reported here.
    machine.emit(index.origins)
    return item


_ITEMS: dict[type, Callable[[Machine, Any, Value, ast.AST], Value]] = {
    Tensor: _item_of_tensor,
    Sequence: _item_of_sequence,
    Mapping: _item_of_mapping,
    Instance: _item_of_instance,
    Object: _item_of_object,
    Choice: _item_of_choice,
    Host: _item_of_host,
    Array: _item_of_array,
    External: _item_of_external,
    Class: _item_of_class,
    Function: _item_of_function,
}

# All items ------------------------------------------------------------------------------------------------------------


def sample_item(machine: Machine, owner: Value, node: ast.AST) -> Value:
    """Return a value that stands for any item of something."""
    if isinstance(owner, Sequence):
        items = machine.known_items(owner, node)
        item = joined(items, machine.round) if items else owner.rest
        return (item or Value(mix("each", owner.sym))).marked(owner.origins)
    if isinstance(owner, Tensor):
        return owner.view(None if owner.ndim is None else max(0, owner.ndim - 1))
    if isinstance(owner, Mapping):
        return Host("str", sym=mix("key", owner.sym))  # iterating a dict gives its keys
    if isinstance(owner, Host):
        kind = "number" if owner.kind == "size" else owner.kind
        return Host(kind, sym=mix("each", owner.sym), origins=owner.origins)
    if isinstance(owner, Array):
        return Array(sym=mix("each", owner.sym), origins=owner.origins)
    if isinstance(owner, (Object, Instance)):
        return machine.library.any_item(machine, owner, node)
    return Value(mix("each", owner.sym), owner.origins)


def items_of(machine: Machine, owner: Value, node: ast.AST, count: int | None = None) -> list[Value] | None:
    """Return the items of something that is iterated, where they are known one by one.

    `count` is the number of names that it is unpacked into: then there are that many, whatever else is known.
    """
    if isinstance(owner, Sequence):
        items = machine.known_items(owner, node)
        return items and [machine.read(owner, place, item, node) for place, item in enumerate(items)]
    if isinstance(owner, Mapping):
        return None if owner.rest is not None else [const(key) for key in owner.slots]
    if isinstance(owner, Host):
        return _items_of_host(owner, count)
    if isinstance(owner, Tensor):
        rows = count or (owner.first if owner.first is not None and owner.first <= _ROWS else None)
        return None if rows is None else [sample_item(machine, owner, node) for _ in range(rows)]
    if isinstance(owner, (Object, Instance)):
        return machine.library.object_items(machine, owner, node, count)
    return None


def _items_of_host(owner: Host, count: int | None) -> list[Value] | None:
    if isinstance(owner.value, (str, tuple, bytes)):
        return [const(item, owner.origins) for item in owner.value]
    # `n, c, h, w = x.shape` says how many dimensions there are.
    if owner.kind == "size" and count:
        return [Host("extent", sym=mix("item", owner.sym, place), origins=owner.origins) for place in range(count)]
    return None


def walks_rows(source: Value) -> bool:
    """Tell whether a loop over this goes through the rows of a tensor, many of them as far as is known."""
    if isinstance(source, Tensor):
        return source.first is None or source.first >= _MANY
    if isinstance(source, Sequence):
        many = source.items is None or len(source.items) >= _MANY
        extents = any(isinstance(item, Host) and item.kind == "extent" for item in source.each())
        return many and (source.kind == "rows" or (source.kind in {"range", "iterator"} and extents))
    return False


# Writes ---------------------------------------------------------------------------------------------------------------


def set_item(machine: Machine, target: ast.Subscript, new: Value) -> None:
    """Run `owner[index] = new`."""
    _set_in(machine, machine.value(target.value), machine.value(target.slice), new, target)


def look_at_updated_item(machine: Machine, target: ast.Subscript, new: Value) -> None:
    """Report an entry of a dict that captured code replaces by what it makes of it, where the key is not known.

    A number would be frozen, a tensor rebound: a replay goes on reading what was there at capture.
    """
    if not isinstance(target.value, (ast.Name, ast.Attribute)) or not isinstance(target.slice, ast.Name):
        return
    owner = machine.value(target.value)
    unknown = isinstance(owner, Mapping) and owner.made < machine.round and key_of(machine.value(target.slice)) is None
    if unknown and (isinstance(new, Tensor) or type(new) is Value):
        message = f"{quoted(target)} is replaced here; a replay goes on reading what was there at capture: use copy_"
        machine.report("CG302", target, message, certain=False)


def _set_in(machine: Machine, owner: Value, index: Value, new: Value, target: ast.Subscript) -> None:
    if isinstance(owner, Tensor):
        machine.library.set_index(machine, owner, index, new, target)
    elif isinstance(owner, Mapping):
        _set_in_mapping(machine, owner, index, new, target)
    elif isinstance(owner, Sequence):
        _set_in_sequence(machine, owner, index, new, target)
    elif isinstance(owner, Array):
        if isinstance(new, Tensor) and new.on_gpu:
            machine.report("CG203", target, f"{quoted(target)} = … copies a GPU tensor into a numpy array")
        machine.mutate(owner, target, new, index)
    elif isinstance(owner, Instance):
        member = owner.cls.find("__setitem__")
        if member:
            machine.call(bind_member(member[1], owner), [index, new], {}, target)
        elif "[]" in owner.slots:  # a class that inherits from dict or list keeps its items there
            _set_in(machine, owner.slots["[]"], index, new, target)
    elif isinstance(owner, Object):
        machine.library.on_set(machine, owner, "[]", new, target)


def _set_in_mapping(machine: Machine, owner: Mapping, index: Value, new: Value, target: ast.Subscript) -> None:
    if isinstance(index, Tensor):
        return
    key = key_of(index)
    if key is None:
        owner.rest = joined([*([owner.rest] if owner.rest is not None else []), new], machine.round)
        return
    machine.library.on_set(machine, owner, str(key), new, target)
    # Which entry gets the tensor changes at every call; a replay writes to that of the capture.
    if isinstance(new, Tensor) and index.origins:
        machine.emit(index.origins)
    machine.write(owner, key, new, target)


def _set_in_sequence(machine: Machine, owner: Sequence, index: Value, new: Value, target: ast.Subscript) -> None:
    if isinstance(index, Tensor) and index.on_gpu:
        machine.report("CG216", target, f"{quoted(target)} needs the value of a GPU tensor as a Python index")
        return
    if index.origins and isinstance(new, Tensor):
        machine.emit(index.origins)
    place = _place_in(owner, index)
    if owner.items is not None and place is not None:
        items = list(owner.items)
        items[place] = new
        machine.write_items(owner, items, None, target)
    else:
        machine.write_items(owner, None, joined([*owner.each(), new], machine.round), target)


def _place_in(owner: Sequence, index: Value) -> int | None:
    """Return the place of an item by its index; None where either is not known, or there is no such item."""
    count = len(owner.items or ())
    if isinstance(index, Host) and isinstance(index.value, int) and -count <= index.value < count:
        return index.value
    return None


def key_of(value: Value, depth: int = 0) -> Any:
    """Return the Python key that a value is in a dict; None where it is not known, or a tuple of tuples of tuples."""
    if isinstance(value, Host) and not is_none(value):
        # Of a number that is not known the name is: the same number later finds the same entry.
        return value.value if value.known else ("host", value.sym)
    # Tuples that hold one another twice, and so on, have more items than anyone can count.
    if isinstance(value, Sequence) and value.kind == "tuple" and value.items is not None and depth < _NESTED:
        keys = [key_of(item, depth + 1) for item in value.items]
        return None if None in keys else tuple(keys)
    if isinstance(value, (Instance, Class, Function, External, Object)):
        return ("object", value.sym)
    if isinstance(value, Tensor):
        return ("tensor", min(value.storages))
    return None


def delete_item(machine: Machine, target: ast.Subscript) -> None:
    """Run `del owner[index]`."""
    owner = machine.value(target.value)
    index = machine.value(target.slice)
    if isinstance(owner, Mapping):
        key = key_of(index)
        if key in owner.slots:
            machine.journal.append((owner.slots, key, owner.slots.pop(key)))
    elif isinstance(owner, Sequence):
        place = _place_in(owner, index)
        if owner.items is not None and place is not None:
            left = list(owner.items)
            del left[place]
            machine.write_items(owner, left, None, target)
        else:
            machine.write_items(owner, None, joined(owner.each(), machine.round), target)
