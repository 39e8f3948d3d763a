"""TODO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.attributes import bind_member
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
    Sequence,
    Tensor,
    Value,
    const,
    joined,
    mix,
    quoted,
)

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine


def item_at(machine: Machine, owner: Value, index: Value, node: ast.Subscript | ast.AST) -> Value:
    """What `owner[index]` is."""
    if isinstance(owner, Tensor):
        return machine.library.index(machine, owner, index, node)
    if isinstance(index, Tensor) and index.on_gpu and isinstance(owner, (Sequence, Array, Host)):
        machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as a Python index")
        return sample_item(machine, owner, node)
    if isinstance(owner, Sequence):
        return _item_of_sequence(machine, owner, index, node)
    if isinstance(owner, Mapping):
        return _item_of_mapping(machine, owner, index, node)
    if isinstance(owner, Instance):
        found = owner.cls.find("__getitem__")
        if found:
            return machine.call(bind_member(machine, found[1], owner), [index], {}, node)
        return machine.library.module_item(machine, owner, index, node)
    if isinstance(owner, Object):
        return machine.library.object_item(machine, owner, index, node)
    if isinstance(owner, Choice):
        return joined([item_at(machine, each, index, node) for each in owner.options], machine.round) or Value()
    if isinstance(owner, Host):
        return _item_of_host(owner, index)
    if isinstance(owner, Array):
        return Array(sym=mix("item", owner.sym, index.sym), origins=owner.origins | index.origins)
    if isinstance(owner, External) and owner.name == "os.environ":
        return machine.library.environment(machine, index, node)
    if isinstance(owner, (Class, External)):
        return owner  # a type with parameters
    return Value(mix("item", owner.sym, index.sym), owner.origins | index.origins)


def _item_of_host(owner: Host, index: Value) -> Value:
    origins = owner.origins | index.origins
    if owner.known and isinstance(index, Host) and index.known:
        try:
            return const(owner.value[index.value], origins)  # type: ignore[index]
        except (TypeError, IndexError, KeyError, ValueError):
            return Value()
    kind = "extent" if owner.kind == "size" else owner.kind if owner.kind == "str" else ""
    return Host(kind, sym=mix("item", owner.sym, index.sym), origins=origins)


def _item_of_sequence(machine: Machine, owner: Sequence, index: Value, node: ast.AST) -> Value:
    items = known_items(machine, owner, node)
    if isinstance(index, Host) and index.known and items is not None:
        try:
            found = items[index.value]  # type: ignore[call-overload]
        except (IndexError, TypeError, ValueError):
            return Value()
        if isinstance(found, list):
            return Sequence(owner.kind, found, machine.round)
        return picked(machine, machine.read(owner, index.value, found, node), index)
    if isinstance(index, Sequence) and index.kind == "slice":
        known = [each.value if isinstance(each, Host) and each.known else ... for each in index.each()]
        whole = all(each is None or isinstance(each, int) for each in known) and known[2:] != [0]
        if items is not None and whole and len(known) == 3:
            return Sequence(owner.kind, items[slice(*known)], machine.round)  # type: ignore[arg-type]
        return Sequence(owner.kind, None, machine.round, sample_item(machine, owner, node))
    return picked(machine, sample_item(machine, owner, node), index)


def _item_of_mapping(machine: Machine, owner: Mapping, index: Value, node: ast.AST) -> Value:
    key = key_of(index)
    if key is not None and key in owner.slots:
        return picked(machine, machine.read(owner, key, owner.slots[key], node), index)
    if key is not None and owner.factory is not None and owner.rest is None:
        machine.write(owner, key, machine.call(owner.factory, [], {}, node), node)
        return picked(machine, owner.slots[key], index)
    found = joined(owner.each() if key is None else [owner.rest] if owner.rest is not None else [], machine.round)
    if found is None:
        return Value(mix("item", owner.sym, index.sym))
    return picked(machine, found, index)


def picked(machine: Machine, found: Value, index: Value) -> Value:
    """An item that was picked by an index: if the index changes at every call, the pick is frozen."""
    if not index.origins or isinstance(found, Host) or type(found) is Value:
        return found.marked(index.origins)
    machine.emit(index.origins)
    return found


def known_items(machine: Machine, sequence: Sequence, node: ast.AST) -> list[Value] | None:
    """The items of a list, noting that this call looks into it."""
    slot = (id(sequence), "items")
    if (
        machine.inside
        and slot in machine.dirty
        and sequence.made < machine.round
        and slot not in machine.emptied
        and machine.changes(slot)
    ):
        machine.read_slots[slot] = machine.dirty[slot]
        marked = machine.read(sequence, "items", Host("", sym=0), node).origins
        if marked and sequence.items is not None:
            return [each if isinstance(each, Tensor) else each.marked(marked) for each in sequence.items]
    return sequence.items


def sample_item(machine: Machine, owner: Value, node: ast.AST) -> Value:
    """Any one item of something."""
    if isinstance(owner, Sequence):
        items = known_items(machine, owner, node)
        found = joined(items, machine.round) if items else owner.rest
        return (found or Value(mix("each", owner.sym))).marked(owner.origins)
    if isinstance(owner, Tensor):
        return owner.view(None if owner.ndim is None else max(0, owner.ndim - 1))
    if isinstance(owner, Mapping):
        return Host("str", sym=mix("key", owner.sym))
    if isinstance(owner, Host):
        kind = "number" if owner.kind == "size" else owner.kind
        return Host(kind, sym=mix("each", owner.sym), origins=owner.origins)
    if isinstance(owner, Array):
        return Array(sym=mix("each", owner.sym), origins=owner.origins)
    if isinstance(owner, (Object, Instance)):
        return machine.library.any_item(machine, owner, node)
    return Value(mix("each", owner.sym), owner.origins)


def items_of(machine: Machine, owner: Value, node: ast.AST, count: int | None = None) -> list[Value] | None:
    """The items of something that is iterated, where they are known one by one; `count` where it is unpacked into so many."""
    if isinstance(owner, Sequence):
        known = known_items(machine, owner, node)
        if known is not None:
            return [machine.read(owner, place, each, node) for place, each in enumerate(known)]
        return None
    if isinstance(owner, Mapping):
        return None if owner.rest is not None else [const(key) for key in owner.slots]
    if isinstance(owner, Host) and owner.known and isinstance(owner.value, (str, tuple, bytes)):
        return [const(each, owner.origins) for each in owner.value]
    if isinstance(owner, Host) and owner.kind == "size" and count:
        return [Host("extent", sym=mix("item", owner.sym, place), origins=owner.origins) for place in range(count)]
    if isinstance(owner, Tensor):
        rows = count or (owner.first if owner.first is not None and owner.first <= 12 else None)
        return None if rows is None else [sample_item(machine, owner, node) for _ in range(rows)]
    if isinstance(owner, (Object, Instance)):
        return machine.library.object_items(machine, owner, node, count)
    return None


def walks_rows(source: Value) -> bool:
    """Whether a loop over this goes through the rows of a tensor, many of them as far as is known."""
    if isinstance(source, Tensor):
        return source.first is None or source.first >= 8
    if isinstance(source, Sequence):
        many = source.items is None or len(source.items) >= 8
        sizes = any(isinstance(each, Host) and each.kind == "extent" for each in source.each())
        return many and (source.kind == "rows" or (source.kind in {"range", "iterator"} and sizes))
    return False


def set_item(machine: Machine, target: ast.Subscript, new: Value) -> None:
    """Run `owner[index] = new`."""
    _set_in(machine, machine.value(target.value), machine.value(target.slice), new, target)


def _set_in(machine: Machine, owner: Value, index: Value, new: Value, target: ast.Subscript) -> None:
    if isinstance(owner, Tensor):
        machine.library.set_index(machine, owner, index, new, target)
    elif isinstance(owner, Mapping):
        key = key_of(index)
        if isinstance(index, Tensor):
            return
        if key is None:
            rest = joined([*([owner.rest] if owner.rest is not None else []), new], machine.round)
            owner.rest = rest
        else:
            machine.library.on_set(machine, owner, str(key), new, target)
            if isinstance(new, Tensor) and index.origins:
                machine.emit(index.origins)
            machine.write(owner, key, new, target)
    elif isinstance(owner, Sequence):
        _set_in_sequence(machine, owner, index, new, target)
    elif isinstance(owner, Array):
        if isinstance(new, Tensor) and new.on_gpu:
            machine.report("CG203", target, f"{quoted(target)} = … copies a GPU tensor into a numpy array")
        machine.mutate(owner, target, new, index)
    elif isinstance(owner, Instance):
        found = owner.cls.find("__setitem__")
        if found:
            machine.call(bind_member(machine, found[1], owner), [index, new], {}, target)
        elif "[]" in owner.slots:
            _set_in(machine, owner.slots["[]"], index, new, target)
    elif isinstance(owner, Object):
        machine.library.on_set(machine, owner, "[]", new, target)


def _set_in_sequence(machine: Machine, owner: Sequence, index: Value, new: Value, target: ast.Subscript) -> None:
    if isinstance(index, Tensor) and index.on_gpu:
        machine.report("CG216", target, f"{quoted(target)} needs the value of a GPU tensor as a Python index")
        return
    if index.origins and isinstance(new, Tensor):
        machine.emit(index.origins)
    known = list(owner.items) if owner.items is not None else None
    if (
        known is not None
        and isinstance(index, Host)
        and isinstance(index.value, int)
        and -len(known) <= index.value < len(known)
    ):
        known[index.value] = new
        machine.write_items(owner, known, None, target)
    else:
        machine.write_items(owner, None, joined([*owner.each(), new], machine.round), target)


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


def delete_item(machine: Machine, target: ast.Subscript) -> None:
    """Run `del owner[index]`."""
    owner = machine.value(target.value)
    index = machine.value(target.slice)
    if isinstance(owner, Mapping):
        key = key_of(index)
        if key in owner.slots:
            machine.journal.append((owner.slots, key, owner.slots.pop(key)))
    elif isinstance(owner, Sequence):
        if (
            owner.items is not None
            and isinstance(index, Host)
            and isinstance(index.value, int)
            and index.value < len(owner.items)
        ):
            left = list(owner.items)
            del left[index.value]
            machine.write_items(owner, left, None, target)
        else:
            machine.write_items(owner, None, joined(owner.each(), machine.round), target)
