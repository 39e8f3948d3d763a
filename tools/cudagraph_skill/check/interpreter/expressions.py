"""What expressions are: names, attributes, items, operators, calls, comprehensions; and which of them read the GPU."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.input.modules import Module
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
    Method,
    Object,
    Origins,
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
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_BIG = 1 << 62


class Later(Value):
    """A name that a module of the project exports; the module is run when the name is used."""

    __slots__ = ("busy", "module", "name")

    def __init__(self, module: Module, name: str) -> None:
        super().__init__()
        self.busy = False
        self.module = module
        self.name = name

    def resolve(self, machine: Machine) -> Value:
        """The value behind the name; itself, where only the outline of a module is read that has not been needed yet."""
        if self.busy or (machine.outline and not self.module.started):
            return self
        self.busy = True
        try:
            return self._found(machine)
        finally:
            self.busy = False

    def _found(self, machine: Machine) -> Value:
        machine.load(self.module)
        found = self.module.scope.slots.get(self.name)
        if found is None:
            inner = machine.project.find(f"{self.module.name}.{self.name}", self.module)
            return inner or Value()
        return found.resolve(machine) if isinstance(found, Later) and found is not self else found


class Super(Value):
    """What `super()` returns in a method."""

    __slots__ = ("cls", "receiver")

    def __init__(self, cls: Class, receiver: Value) -> None:
        super().__init__()
        self.cls = cls
        self.receiver = receiver


def value(machine: Machine, node: ast.expr) -> Value:
    """What an expression is."""
    machine.steps += 1
    evaluate = _EXPRESSIONS.get(type(node))
    return evaluate(machine, node) if evaluate else Value()


def _constant(_: Machine, node: ast.Constant) -> Value:
    return const(node.value)


def _name(machine: Machine, node: ast.Name) -> Value:
    scope: Scope | None = machine.frame.scope
    name = node.id
    if scope is not None and name in scope.declared:
        scope = scope.declared[name]
    while scope is not None:
        if name in scope.slots:
            found = machine.read(scope, name, scope.slots[name], node)
            if isinstance(found, Later):
                found = found.resolve(machine)
            if name in scope.varying:
                message = f"the argument `{name}` differs from call to call; the graph keeps the value that it has at capture"
                found = found.marked(machine.origin("CG103", node, message))
            return found
        scope = scope.outer
    return machine.library.builtin(name)


def _attribute(machine: Machine, node: ast.Attribute) -> Value:
    return attribute(machine, value(machine, node.value), node.attr, node)


def attribute(machine: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """What `owner.name` is."""
    if isinstance(owner, Later):
        owner = owner.resolve(machine)
        if isinstance(owner, Later):
            return Value()
    if isinstance(owner, Module):
        return _of_module(machine, owner, name, node)
    if isinstance(owner, Instance):
        return _of_instance(machine, owner, name, node)
    if isinstance(owner, Class):
        machine.library.complete(machine, owner)
        found = owner.find(name)
        if found:
            read = machine.read(found[0], name, found[1], node)
            return Bound(owner, read) if isinstance(read, Function) and "classmethod" in read.marks else read
        return machine.library.attribute(machine, owner, name, node)
    if isinstance(owner, Super):
        return _of_super(machine, owner, name)
    if isinstance(owner, Choice):
        return joined([attribute(machine, each, name, node) for each in owner.options], machine.round) or Value()
    if isinstance(owner, Partial) and owner.how in {"graphed", "compile", "autocast"}:
        return attribute(machine, owner.function, name, node)
    if isinstance(owner, Object) and name in owner.slots:
        return machine.read(owner, name, owner.slots[name], node)
    return machine.library.attribute(machine, owner, name, node)


def _of_module(machine: Machine, module: Module, name: str, node: ast.AST) -> Value:
    if machine.outline and not module.started:
        return Later(module, name)
    machine.load(module)
    if name in module.scope.slots:
        found = machine.read(module.scope, name, module.scope.slots[name], node)
        return found.resolve(machine) if isinstance(found, Later) else found
    return machine.project.find(f"{module.name}.{name}", module) or Value()


def _of_instance(machine: Machine, owner: Instance, name: str, node: ast.AST) -> Value:
    found = owner.cls.find(name)
    if found and isinstance(found[1], Function) and "property" in found[1].marks:
        return _property(machine, owner, found[1], name, node)
    if name in owner.slots:
        return machine.read(owner, name, owner.slots[name], node)
    if found:
        return bound(machine, machine.read(found[0], name, found[1], node), owner)
    if name == "__dict__":
        return _attributes(machine, owner)
    if name == "__class__":
        return owner.cls
    guess = machine.library.module_attribute(machine, owner, name, node)
    if guess is not None:
        return guess
    lookup = owner.cls.find("__getattr__")
    if lookup:
        return machine.call(Bound(owner, lookup[1]), [const(name)], {}, node)
    return Value(mix("attribute", owner.sym, name))


def _attributes(machine: Machine, owner: Instance) -> Value:
    found = Mapping(owner.made)
    found.slots = owner.slots
    del machine
    return found


def _property(machine: Machine, owner: Instance, getter: Function, name: str, node: ast.AST) -> Value:
    if "cached" not in getter.marks:
        return machine.call(getter, [owner], {}, node)
    if name not in owner.slots:
        machine.write(owner, name, machine.call(getter, [owner], {}, node), node)
    return machine.read(owner, name, owner.slots[name], node)


def bound(machine: Machine, found: Value, receiver: Value) -> Value:
    """A member of a class, as seen on an object."""
    del machine
    if isinstance(found, Function):
        if "staticmethod" in found.marks:
            return found
        if "classmethod" in found.marks:
            return Bound(receiver.cls if isinstance(receiver, Instance) else receiver, found)
        return Bound(receiver, found)
    if isinstance(found, Partial):
        return Bound(receiver, found)
    if isinstance(found, Object) and found.name == "builtins.staticmethod":
        return found.args[0]
    return found


def _of_super(machine: Machine, owner: Super, name: str) -> Value:
    line = owner.receiver.cls.line() if isinstance(owner.receiver, Instance) else owner.cls.line()
    after = line[line.index(owner.cls) + 1 :] if owner.cls in line else []
    for each in after:
        if name in each.slots:
            return bound(machine, each.slots[name], owner.receiver)
    if isinstance(owner.receiver, Instance) and name == "__setattr__":
        return Method(owner.receiver, "__setattr__")
    return Method(owner, name)


def set_attribute(machine: Machine, target: ast.Attribute, owner: Value, new: Value) -> None:
    """Run `owner.attr = new`."""
    name = target.attr
    if isinstance(owner, Later):
        owner = owner.resolve(machine)
    if isinstance(owner, Choice):
        for option in owner.options:
            set_attribute(machine, target, option, new)
    elif isinstance(owner, Instance):
        setter = owner.cls.slots.get(f"{name}.setter")
        custom = owner.cls.find("__setattr__")
        if setter is not None:
            machine.call(setter, [owner, new], {}, target)
        elif custom and machine.frame.function != "__setattr__":
            machine.call(Bound(owner, custom[1]), [const(name), new], {}, target)
        else:
            machine.library.on_set(machine, owner, name, new, target)
            machine.write(owner, name, new, target)
    elif isinstance(owner, Module):
        machine.write(owner.scope, name, new, target)
    elif isinstance(owner, (Class, Object)):
        machine.library.on_set(machine, owner, name, new, target)
        machine.write(owner, name, new, target)
    else:
        machine.library.on_set(machine, owner, name, new, target)


# Items ----------------------------------------------------------------------------------------------------------------


def _subscript(machine: Machine, node: ast.Subscript) -> Value:
    owner = value(machine, node.value)
    index = value(machine, node.slice)
    return item(machine, owner, index, node)


def item(machine: Machine, owner: Value, index: Value, node: ast.Subscript | ast.AST) -> Value:
    """What `owner[index]` is."""
    if isinstance(owner, Tensor):
        return machine.library.index(machine, owner, index, node)
    if isinstance(index, Tensor) and index.on_gpu and isinstance(owner, (Sequence, Array, Host)):
        machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as a Python index")
        return item_of(machine, owner, node)
    if isinstance(owner, Sequence):
        return _of_sequence(machine, owner, index, node)
    if isinstance(owner, Mapping):
        return _of_mapping(machine, owner, index, node)
    if isinstance(owner, Instance):
        found = owner.cls.find("__getitem__")
        if found:
            return machine.call(bound(machine, found[1], owner), [index], {}, node)
        return machine.library.module_item(machine, owner, index, node)
    if isinstance(owner, Object):
        return machine.library.object_item(machine, owner, index, node)
    if isinstance(owner, Choice):
        return joined([item(machine, each, index, node) for each in owner.options], machine.round) or Value()
    if isinstance(owner, Host):
        return _of_host(owner, index)
    if isinstance(owner, Array):
        return Array(sym=mix("item", owner.sym, index.sym), origins=owner.origins | index.origins)
    if isinstance(owner, External) and owner.name == "os.environ":
        return machine.library.environment(machine, index, node)
    if isinstance(owner, (Class, External)):
        return owner  # a type with parameters
    return Value(mix("item", owner.sym, index.sym), owner.origins | index.origins)


def _of_host(owner: Host, index: Value) -> Value:
    origins = owner.origins | index.origins
    if owner.known and isinstance(index, Host) and index.known:
        try:
            return const(owner.value[index.value], origins)  # type: ignore[index]
        except (TypeError, IndexError, KeyError, ValueError):
            return Value()
    kind = "extent" if owner.kind == "size" else owner.kind if owner.kind == "str" else ""
    return Host(kind, sym=mix("item", owner.sym, index.sym), origins=origins)


def _of_sequence(machine: Machine, owner: Sequence, index: Value, node: ast.AST) -> Value:
    items = held(machine, owner, node)
    if isinstance(index, Host) and index.known and items is not None:
        try:
            found = items[index.value]  # type: ignore[call-overload]
        except (IndexError, TypeError, ValueError):
            return Value()
        if isinstance(found, list):
            return Sequence(owner.kind, found, machine.round)
        return chosen(machine, machine.read(owner, index.value, found, node), index)
    if isinstance(index, Sequence) and index.kind == "slice":
        known = [each.value if isinstance(each, Host) and each.known else ... for each in index.each()]
        whole = all(each is None or isinstance(each, int) for each in known) and known[2:] != [0]
        if items is not None and whole and len(known) == 3:
            return Sequence(owner.kind, items[slice(*known)], machine.round)  # type: ignore[arg-type]
        return Sequence(owner.kind, None, machine.round, item_of(machine, owner, node))
    return chosen(machine, item_of(machine, owner, node), index)


def _of_mapping(machine: Machine, owner: Mapping, index: Value, node: ast.AST) -> Value:
    key = key_of(index)
    if key is not None and key in owner.slots:
        return chosen(machine, machine.read(owner, key, owner.slots[key], node), index)
    if key is not None and owner.factory is not None and owner.rest is None:
        machine.write(owner, key, machine.call(owner.factory, [], {}, node), node)
        return chosen(machine, owner.slots[key], index)
    found = joined(owner.each() if key is None else [owner.rest] if owner.rest is not None else [], machine.round)
    if found is None:
        return Value(mix("item", owner.sym, index.sym))
    return chosen(machine, found, index)


def chosen(machine: Machine, found: Value, index: Value) -> Value:
    """An item that was picked by an index: if the index changes at every call, the pick is frozen."""
    if not index.origins or isinstance(found, Host) or type(found) is Value:
        return found.marked(index.origins)
    machine.emit(index.origins)
    return found


def held(machine: Machine, sequence: Sequence, node: ast.AST) -> list[Value] | None:
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


def item_of(machine: Machine, owner: Value, node: ast.AST) -> Value:
    """Any one item of something."""
    if isinstance(owner, Sequence):
        items = held(machine, owner, node)
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


def items(machine: Machine, owner: Value, node: ast.AST, count: int | None = None) -> list[Value] | None:
    """The items of something that is iterated, where they are known one by one; `count` where it is unpacked into so many."""
    if isinstance(owner, Sequence):
        known = held(machine, owner, node)
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
        return None if rows is None else [item_of(machine, owner, node) for _ in range(rows)]
    if isinstance(owner, (Object, Instance)):
        return machine.library.object_items(machine, owner, node, count)
    return None


def rows(source: Value) -> bool:
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
    _set_in(machine, value(machine, target.value), value(machine, target.slice), new, target)


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
            machine.call(bound(machine, found[1], owner), [index, new], {}, target)
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


def update_item(machine: Machine, node: ast.AugAssign, target: ast.Subscript) -> None:
    """Run `owner[index] op= new`."""
    owner = value(machine, target.value)
    index = value(machine, target.slice)
    if isinstance(owner, Tensor):
        machine.library.update_index(machine, owner, index, value(machine, node.value), node)
        return
    old = item(machine, owner, index, target)
    result = in_place(machine, node, old, value(machine, node.value))
    if result is not old or isinstance(old, Host):
        set_item(machine, target, result)


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
    owner = value(machine, target.value)
    index = value(machine, target.slice)
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


# Operators ------------------------------------------------------------------------------------------------------------

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _binary(machine: Machine, node: ast.BinOp) -> Value:
    left, right = value(machine, node.left), value(machine, node.right)
    return binary(machine, type(node.op), left, right, node)


def binary(machine: Machine, kind: type, left: Value, right: Value, node: ast.AST) -> Value:
    """What `left op right` is."""
    if isinstance(left, Instance) or isinstance(right, Instance):
        found = _overloaded(machine, kind, left, right, node)
        if found is not None:
            return found
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        if kind is ast.Mod and isinstance(left, Host) and left.kind == "str":
            return formatted(machine, [right], node)
        if (isinstance(left, Sequence) and isinstance(right, Tensor)) or isinstance(right, Sequence):
            return _sequence_with_tensor(machine, kind, left, right, node)
        return machine.library.elementwise(machine, [left, right], node)
    if isinstance(left, Host) and isinstance(right, Host):
        return _of_hosts(kind, left, right)
    if isinstance(left, Sequence) or isinstance(right, Sequence):
        return _of_sequences(machine, kind, left, right, node)
    if isinstance(left, Array) or isinstance(right, Array):
        return Array(sym=mix(kind.__name__, left.sym, right.sym), origins=left.origins | right.origins)
    if isinstance(left, Object) and left.name.startswith("pathlib."):
        return left
    if kind is ast.Mod and isinstance(left, Host) and isinstance(right, (Sequence, Mapping)):
        return formatted(machine, right.each(), node)
    return Value(mix(kind.__name__, left.sym, right.sym), left.origins | right.origins)


def _sequence_with_tensor(machine: Machine, kind: type, left: Value, right: Value, node: ast.AST) -> Value:
    if isinstance(left, Sequence) and kind is ast.Mult and isinstance(right, Tensor) and right.on_gpu:
        machine.report(
            "CG207", node, f"{quoted(node)} repeats a list as often as a GPU tensor says: its value is read on the host"
        )
        return Sequence(left.kind, None, machine.round, joined(left.each(), machine.round))
    return machine.library.elementwise(machine, [left, right], node)


def _of_hosts(kind: type, left: Host, right: Host) -> Value:
    origins = left.origins | right.origins
    sym = mix(kind.__name__, left.sym, right.sym)
    if left.known and right.known and kind in _OPERATORS and _small(kind, left.value, right.value):
        try:
            return const(_OPERATORS[kind](left.value, right.value), origins)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, MemoryError):
            return Host("", sym=sym, origins=origins)
    kinds = {left.kind, right.kind}
    return Host("str" if "str" in kinds else "number", sym=sym, origins=origins)


def _small(kind: type, left: object, right: object) -> bool:
    """Whether the result of an operator on known values is cheap to have."""
    sizes = [
        abs(each) if isinstance(each, (int, float)) else len(each) if isinstance(each, (str, bytes, tuple)) else 0
        for each in (left, right)
    ]
    if kind in {ast.Pow, ast.LShift}:
        return sizes[0] < 1e6 and sizes[1] < 64
    if isinstance(left, (str, bytes, tuple)) or isinstance(right, (str, bytes, tuple)):
        return kind is not ast.Mult or (min(sizes) < 1000 and max(sizes) < 1000)
    return max(sizes) < _BIG


def _of_sequences(machine: Machine, kind: type, left: Value, right: Value, node: ast.AST) -> Value:
    if kind is ast.Mod and isinstance(left, Host) and isinstance(right, Sequence):
        return formatted(machine, right.each(), node)
    if kind is ast.Add and isinstance(left, Sequence) and isinstance(right, Sequence):
        one, other = held(machine, left, node), held(machine, right, node)
        if one is not None and other is not None:
            return Sequence(left.kind, [*one, *other], machine.round)
        return Sequence(left.kind, None, machine.round, joined([*left.each(), *right.each()], machine.round))
    sequence, times = (left, right) if isinstance(left, Sequence) else (right, left)
    if kind is ast.Mult and isinstance(sequence, Sequence) and isinstance(times, Host):
        if (
            times.known
            and isinstance(times.value, int)
            and sequence.items is not None
            and times.value * len(sequence.items) <= 64
        ):
            return Sequence(sequence.kind, sequence.items * times.value, machine.round)
        new = Sequence(sequence.kind, None, machine.round, joined(sequence.each(), machine.round))
        new.origins = times.origins
        return new
    if isinstance(sequence, Sequence) and kind in {ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor}:
        return Sequence("set", None, machine.round, joined(sequence.each(), machine.round))
    return Value(mix(kind.__name__, left.sym, right.sym), left.origins | right.origins)


_DUNDER = {"Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "Mod": "mod", "Pow": "pow",
           "MatMult": "matmul", "BitAnd": "and", "BitOr": "or", "BitXor": "xor", "LShift": "lshift", "RShift": "rshift"}  # fmt: skip


def _overloaded(machine: Machine, kind: type, left: Value, right: Value, node: ast.AST) -> Value | None:
    name = _DUNDER.get(kind.__name__, "")
    for receiver, other, prefix in ((left, right, ""), (right, left, "r")):
        found = receiver.cls.find(f"__{prefix}{name}__") if isinstance(receiver, Instance) else None
        if found:
            return machine.call(bound(machine, found[1], receiver), [other], {}, node)
    return None


def in_place(machine: Machine, node: ast.AugAssign, old: Value, new: Value) -> Value:
    """What `old op= new` leaves: the same tensor or list, changed, or a new number."""
    if isinstance(old, Tensor):
        return machine.library.update(machine, old, [new], node)
    if isinstance(old, Array):
        if isinstance(new, Tensor) and new.on_gpu:
            machine.report("CG203", node, f"{quoted(node)} needs a GPU tensor as a numpy array")
        machine.mutate(old, node, new)
        return old
    if isinstance(old, Sequence) and isinstance(node.op, ast.Add):
        added = items(machine, new, node)
        if old.items is not None and added is not None:
            machine.write_items(old, [*old.items, *added], None, node)
        else:
            machine.write_items(old, None, joined([*old.each(), item_of(machine, new, node)], machine.round), node)
        return old
    if isinstance(old, Instance):
        method = old.cls.find(f"__i{_DUNDER.get(type(node.op).__name__, '')}__")
        if method:
            return machine.call(bound(machine, method[1], old), [new], {}, node)
    return binary(machine, type(node.op), old, new, node)


def _unary(machine: Machine, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        truth, origins = test(machine, node.operand)
        if truth is not None:
            return const(not truth, origins)
        return Host("bool", sym=mix("not", id(node)), origins=origins)
    found = value(machine, node.operand)
    if isinstance(found, Tensor):
        return machine.library.elementwise(machine, [found], node)
    if isinstance(found, Host):
        deprecated = isinstance(node.op, ast.Invert) and isinstance(found.value, bool)  # Python >=3.12 warns of ~True
        if found.known and isinstance(found.value, (int, float)) and not deprecated:
            known: Any = found.value
            apply: dict[type, Callable[[Any], Any]] = {
                ast.USub: operator.neg,
                ast.UAdd: operator.pos,
                ast.Invert: operator.invert,
            }
            try:
                return const(apply[type(node.op)](known), found.origins)
            except TypeError:
                return number(origins=found.origins)
        return Host(found.kind, sym=mix(type(node.op).__name__, found.sym), origins=found.origins)
    return Value(mix("unary", found.sym), found.origins)


def _compare(machine: Machine, node: ast.Compare) -> Value:
    left = value(machine, node.left)
    results = []
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = value(machine, comparator)
        results.append(compare(machine, op, left, right, node))
        left = right
    if len(results) == 1:
        return results[0]
    for result in results[:-1]:
        if isinstance(result, Tensor) and result.on_gpu:
            machine.report("CG202", node, f"{quoted(node)} chains comparisons, which needs the truth of a GPU tensor")
            return results[-1]
    return Host("bool", sym=mix("chain", *(each.sym for each in results)), origins=origins_of(results))


def compare(machine: Machine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    """What one comparison is."""
    origins = left.origins | right.origins
    if isinstance(op, (ast.Is, ast.IsNot)):
        same = _identical(left, right)
        if same is None:
            return Host("bool", sym=mix("is", left.sym, right.sym), origins=NONE if _fixed(left) and _fixed(right) else origins)
        return const(same is isinstance(op, ast.Is), origins)
    if isinstance(op, (ast.In, ast.NotIn)):
        return _membership(machine, op, left, right, node)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        other = right if isinstance(left, Tensor) else left
        if is_none(other) or isinstance(other, (Sequence, Mapping)) or (isinstance(other, Host) and other.kind == "str"):
            return Host("bool")
        result = machine.library.elementwise(machine, [left, right], node)
        if isinstance(result, Tensor):
            result.dtype = "bool"
        return result
    if isinstance(left, Host) and isinstance(right, Host) and left.known and right.known:
        try:
            return const(bool(_COMPARISONS[type(op)](left.value, right.value)), origins)
        except TypeError:
            return Host("bool", origins=origins)
    if isinstance(left, Sequence) and isinstance(right, Sequence):
        return _compare_sequences(machine, left, right, node)
    if isinstance(left, Instance):
        found = left.cls.find("__eq__") if isinstance(op, ast.Eq) else None
        if found:
            return machine.call(bound(machine, found[1], left), [right], {}, node)
        fields = isinstance(right, Instance) and right is not left and left.cls.find("__dataclass__")
        if fields and any(isinstance(each, Tensor) and each.on_gpu for each in left.slots.values()):
            machine.report(
                "CG205", node, f"{quoted(node)} compares dataclasses field by field, which needs the truth of their GPU tensors"
            )
    return Host("bool", sym=mix(type(op).__name__, left.sym, right.sym), origins=origins | origins_of([left, right]))


def _fixed(found: Value) -> bool:
    return not isinstance(found, Host)


def _compare_sequences(machine: Machine, left: Sequence, right: Sequence, node: ast.AST) -> Value:
    pairs = zip(left.each(), right.each(), strict=False)
    if any(isinstance(one, Tensor) and isinstance(other, Tensor) and one.on_gpu and one is not other for one, other in pairs):
        machine.report("CG205", node, f"{quoted(node)} compares tensors in a list, which needs the truth of each comparison")
    return Host("bool", sym=mix("compare", left.sym, right.sym), origins=origins_of([left, right]))


def _identical(left: Value, right: Value) -> bool | None:
    """Whether two values are one object, where that is known."""
    for one, other in ((left, right), (right, left)):
        if is_none(other):
            if isinstance(one, Tensor):
                return None if one.optional else False
            if isinstance(one, Host):
                return (
                    one.value is None
                    if one.known
                    else False
                    if one.kind in {"number", "extent", "size", "device", "str", "int", "float", "bool"}
                    else None
                )
            if isinstance(one, Choice):
                return None
            return None if type(one) is Value else False
    if isinstance(left, Host) and isinstance(right, Host) and left.known and right.known:
        return left.value is right.value or left.value == right.value
    if isinstance(left, (Instance, Class, Function)) and isinstance(right, (Instance, Class, Function)):
        return left is right
    return None


def _membership(machine: Machine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    if isinstance(right, Instance) and "[]" in right.slots and not right.cls.find("__contains__"):
        right = right.slots["[]"]
    origins = left.origins | right.origins
    held_tensors = isinstance(right, Sequence) and any(isinstance(each, Tensor) and each.on_gpu for each in right.each())
    if isinstance(right, Tensor) and right.on_gpu and not (isinstance(left, Host) and left.kind == "str"):
        machine.report("CG205", node, f"{quoted(node)} asks on the host whether a GPU tensor contains a value")
        return Host("bool")
    if isinstance(right, Sequence) and right.each() and ((isinstance(left, Tensor) and left.on_gpu) or held_tensors):
        if right.kind not in {"set", "keys"}:
            machine.report(
                "CG205", node, f"{quoted(node)} compares a GPU tensor with each item and reads the result on the host"
            )
        return Host("bool")
    if isinstance(left, Host) and left.known:
        known = _contains(machine, left.value, right, node)
        if known is not None:
            return const(known is isinstance(op, ast.In), origins | _structure(machine, right, node))
    key = key_of(left)
    if key is not None and isinstance(right, Mapping) and right.rest is None:
        return const((key in right.slots) is isinstance(op, ast.In), origins)
    if isinstance(right, Instance):
        found = right.cls.find("__contains__")
        if found:
            return machine.call(bound(machine, found[1], right), [left], {}, node)
    return Host("bool", sym=mix("in", left.sym, right.sym), origins=origins | _structure(machine, right, node))


def _structure(machine: Machine, container: Value, node: ast.AST) -> Origins:
    """Marks of a list that grows at every call."""
    if isinstance(container, Sequence):
        return origins_of(held(machine, container, node) or [])
    return NONE


def _contains(machine: Machine, wanted: object, container: Value, node: ast.AST) -> bool | None:
    if isinstance(container, Sequence):
        known = held(machine, container, node)
        if known is not None and all(isinstance(each, Host) and each.known for each in known):
            return any(isinstance(each, Host) and each.value == wanted for each in known)
        return None
    if isinstance(container, Mapping):
        try:
            return True if wanted in container.slots else None if container.rest is not None else False
        except TypeError:
            return None
    if isinstance(container, Host) and container.known and isinstance(container.value, (str, tuple, bytes)):
        try:
            return wanted in container.value
        except TypeError:
            return None
    if isinstance(container, Instance) and isinstance(wanted, str) and not container.cls.find("__contains__"):
        return None
    return None


# Truth ----------------------------------------------------------------------------------------------------------------


def test(machine: Machine, node: ast.expr) -> tuple[bool | None, Origins]:
    """The truth of a condition where it is known, and what makes it change from call to call."""
    if isinstance(node, ast.BoolOp):
        return _test_all(machine, node)
    return truth(machine, value(machine, node), node)


def _test_all(machine: Machine, node: ast.BoolOp) -> tuple[bool | None, Origins]:
    decides = isinstance(node.op, ast.Or)
    found: Origins = NONE
    unknown = False
    for operand in node.values:
        one, origins = test(machine, operand)
        found |= origins
        if one is decides:
            return decides, found
        unknown = unknown or one is None
    return (None if unknown else not decides), found


def truth(machine: Machine, found: Value, node: ast.AST) -> tuple[bool | None, Origins]:
    """The truth of a value; a tensor on the GPU has none during capture."""
    if isinstance(found, Tensor):
        if found.on_gpu:
            machine.report("CG202", node, f"the truth of the GPU tensor {quoted(node)} is needed on the host")
            return None, NONE
        return None, found.origins
    if isinstance(found, Host):
        if found.known and found.kind != "device":
            return bool(found.value), found.origins
        return None, found.origins
    if isinstance(found, Sequence):
        return _truth_of_sequence(machine, found, node)
    if isinstance(found, Mapping):
        return (None if found.rest is not None else bool(found.slots)), NONE
    if isinstance(found, (Function, Bound, Class, Module)):
        return True, NONE
    if isinstance(found, Instance):
        return _truth_of_instance(machine, found, node)
    if isinstance(found, Object):
        return machine.library.truth(found), NONE
    if isinstance(found, Array):
        return None, found.origins
    return None, found.origins


def _truth_of_sequence(machine: Machine, found: Sequence, node: ast.AST) -> tuple[bool | None, Origins]:
    known = held(machine, found, node)
    if known is None:
        return None, found.origins
    slot = (id(found), "items")
    if slot in machine.read_slots and bool(known):
        return True, NONE  # grows, and was not empty before
    return bool(known), found.origins


def _truth_of_instance(machine: Machine, found: Instance, node: ast.AST) -> tuple[bool | None, Origins]:
    for name in ("__bool__", "__len__"):
        method = found.cls.find(name)
        if method:
            return truth(machine, machine.call(bound(machine, method[1], found), [], {}, node), node)
    return True, NONE


def _bool_op(machine: Machine, node: ast.BoolOp) -> Value:
    decides = isinstance(node.op, ast.Or)
    possible: list[Value] = []
    for place, operand in enumerate(node.values):
        found = value(machine, operand)
        if place == len(node.values) - 1:
            possible.append(found)
            break
        known, origins = truth(machine, found, operand)
        if known is decides:
            possible.append(found)
            break
        if known is None:
            possible.append(found.marked(origins))
    return joined(possible, machine.round) or Value()


def _if_exp(machine: Machine, node: ast.IfExp) -> Value:
    known, origins = test(machine, node.test)
    if known is not None and not origins:
        return value(machine, node.body if known else node.orelse)
    results: list[Value] = []

    def one(branch: ast.expr) -> Callable[[], int]:
        def ran() -> int:
            results.append(value(machine, branch))
            return 0

        return ran

    machine.decide(known, origins, one(node.body), one(node.orelse), node.test)
    if known is not None and origins:
        if any(isinstance(each, (Tensor, Function, Instance, Bound, Object)) for each in results):
            machine.emit(origins)
        return results[-1].marked(origins)
    found = joined(results, machine.round) or Value()
    if origins and not isinstance(found, (Host, Array)):
        machine.emit(origins)
    return found.marked(origins)


# Everything else ------------------------------------------------------------------------------------------------------


def _call(machine: Machine, node: ast.Call) -> Value:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        frame = machine.frame
        if frame.cls is not None and frame.receiver is not None:
            return Super(frame.cls, frame.receiver)
    function = value(machine, node.func)
    args: list[Value] = []
    for each in node.args:
        if isinstance(each, ast.Starred):
            spread = value(machine, each.value)
            known = items(machine, spread, each)
            args += known if known is not None else [item_of(machine, spread, each)]
        else:
            args.append(value(machine, each))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        found = value(machine, keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = found
        elif isinstance(found, Mapping):
            kwargs |= {key: each for key, each in found.slots.items() if isinstance(key, str)}
    return machine.call(function, args, kwargs, node)


def _list(machine: Machine, node: ast.List | ast.Tuple | ast.Set) -> Value:
    kind = {ast.List: "list", ast.Tuple: "tuple", ast.Set: "set"}[type(node)]
    found: list[Value] = []
    for each in node.elts:
        if not isinstance(each, ast.Starred):
            found.append(value(machine, each))
            continue
        spread = value(machine, each.value)
        known = items(machine, spread, each)
        if known is None:
            rest = joined([*found, item_of(machine, spread, each)], machine.round)
            return Sequence(kind, None, machine.round, rest)
        found += known
    return Sequence(kind, found, machine.round)


def _dict(machine: Machine, node: ast.Dict) -> Value:
    made = Mapping(machine.round)
    for key, each in zip(node.keys, node.values, strict=True):
        found = value(machine, each)
        if key is None:
            if isinstance(found, Mapping):
                made.slots.update(found.slots)
                made.rest = found.rest if made.rest is None else made.rest
            else:
                made.rest = Value()
            continue
        known = key_of(value(machine, key))
        if known is None:
            made.rest = joined([*([made.rest] if made.rest is not None else []), found], machine.round)
        else:
            made.slots[known] = found
    return made


def _comprehension(machine: Machine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    found: list[Value] = []
    pairs = Mapping(machine.round)
    exact = [True]
    sources: list[Origins] = []
    outer = machine.frame.scope
    machine.frame.scope = Scope(machine.round, outer, outer.global_scope)
    if isinstance(node, ast.DictComp):
        machine.frame.scope.slots["[]"] = pairs  # what it has made so far is alive
    elif not isinstance(node, ast.GeneratorExp):
        machine.frame.scope.slots["[]"] = Sequence("list", found, machine.round)

    def produce(place: int) -> int:
        if place == len(node.generators):
            if isinstance(node, ast.DictComp):
                key, each = key_of(value(machine, node.key)), value(machine, node.value)
                if key is None:
                    pairs.rest = joined([*([pairs.rest] if pairs.rest is not None else []), each], machine.round)
                else:
                    pairs.slots[key] = each
            else:
                found.append(value(machine, node.elt))
            return 0
        generator = node.generators[place]
        source = value(machine, generator.iter)
        sources.append(source.origins)
        exact[0] = exact[0] and items(machine, source, generator.iter) is not None

        def turn(each: Value) -> int:
            machine.assign(generator.target, each)
            for condition in generator.ifs:
                known, origins = test(machine, condition)
                if known is False and not origins:
                    return 0
                exact[0] = exact[0] and known is not None
            return produce(place + 1)

        machine.iterate(source, generator.iter, turn)
        return 0

    try:
        produce(0)
    finally:
        machine.frame.scope = outer
    if isinstance(node, ast.DictComp):
        return pairs
    if machine.torch.outputs and not machine.inside and _same_memory(found):
        message = f"{quoted(node)} keeps outputs of a graphed callable, which the next call overwrites"
        machine.add("CG308", *machine.site(node), message, ())
    kind = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "iterator"}[type(node)]
    if exact[0]:
        return Sequence(kind, found, machine.round)
    made = Sequence(kind, None, machine.round, joined(found, machine.round))
    made.origins = frozenset().union(*sources)
    return made


def _same_memory(found: list[Value]) -> bool:
    return (
        len(found) > 1
        and isinstance(found[0], Tensor)
        and all(isinstance(each, Tensor) and each.storages == found[0].storages for each in found)
    )


def _formatted_string(machine: Machine, node: ast.JoinedStr) -> Value:
    parts: list[Value] = []
    for each in node.values:
        if isinstance(each, ast.FormattedValue):
            found = value(machine, each.value)
            parts.append(found)
            if each.format_spec is not None:
                value(machine, each.format_spec)
            _readsquoted(machine, found, each.value)
        else:
            parts.append(value(machine, each))
    if all(isinstance(each, Host) and each.known for each in parts) and not any(
        isinstance(each, ast.FormattedValue) and (each.format_spec or each.conversion != -1) for each in node.values
    ):
        text = "".join(str(each.value) for each in parts if isinstance(each, Host))
        return const(text[:4000], origins_of(parts))
    return Host("str", sym=mix("text", *(each.sym for each in parts)), origins=origins_of(parts))


def formatted(machine: Machine, parts: list[Value], node: ast.AST) -> Value:
    """A string made of values: text of a tensor is a read of its values."""
    for each in parts:
        _readsquoted(machine, each, node)
    return Host("str", sym=mix("text", *(each.sym for each in parts)), origins=origins_of(parts))


def _readsquoted(machine: Machine, found: Value, node: ast.AST) -> None:
    machine.library.read_text(machine, found, node)


def _walrus(machine: Machine, node: ast.NamedExpr) -> Value:
    found = value(machine, node.value)
    machine.bind(node.target.id, found, node)
    return found


def _lambda(machine: Machine, node: ast.Lambda) -> Value:
    made = Function(node, machine.frame.scope.visible(), machine.frame.module, "<lambda>")
    made.defaults = machine.defaults(node.args)
    made.owner = machine.frame.cls
    machine.created.setdefault(node, []).append(made)
    return made


def _slice(machine: Machine, node: ast.Slice) -> Value:
    return Sequence("slice", [machine.value(each) for each in (node.lower, node.upper, node.step)], machine.round)


def _starred(machine: Machine, node: ast.Starred) -> Value:
    return value(machine, node.value)


def _await(machine: Machine, node: ast.Await) -> Value:
    return value(machine, node.value)


def _yield(machine: Machine, node: ast.Yield) -> Value:
    found = machine.value(node.value)
    if machine.frame.on_yield is not None:
        machine.frame.on_yield(found)
    return Value()


def _yield_from(machine: Machine, node: ast.YieldFrom) -> Value:
    source = value(machine, node.value)
    yielded = machine.frame.on_yield
    if yielded is not None:
        machine.iterate(source, node.value, yielded)
    return Value()


def decorate(machine: Machine, decorator: Value, function: Value, node: ast.AST) -> Value:
    """What a decorator makes of a function."""
    if isinstance(decorator, Method) and decorator.name in {"setter", "getter", "deleter"}:
        if isinstance(function, Function):
            machine.frame.scope.slots[f"{function.name}.{decorator.name}"] = function
            return machine.frame.scope.slots.get(function.name, function)
        return function
    marked = machine.library.mark(decorator, function)
    if marked is not None:
        return marked
    if isinstance(decorator, Later):
        return function
    made = machine.call(decorator, [function], {}, node)
    return function if type(made) is Value or isinstance(made, Later) else made


def enter(machine: Machine, context: Value, node: ast.expr, body: Callable[[Value], int], statement: ast.AST) -> int:
    """Run the body of a `with` inside its context."""
    if isinstance(context, Object) and context.name == "contextmanager":
        status = [0]

        def yielded(given: Value) -> int:
            status[0] = body(given)
            return 0

        machine.run_generator(context, yielded)
        return status[0]
    if isinstance(context, Instance) and context.cls.find("__enter__"):
        opened = context.cls.find("__enter__")
        closed = context.cls.find("__exit__")
        given = machine.call(bound(machine, opened[1], context), [], {}, node) if opened else context
        left = body(given)
        if closed:
            machine.call(bound(machine, closed[1], context), [const(None)] * 3, {}, node)
        return left
    return machine.library.enter(machine, context, node, body, statement)


def matches(machine: Machine, subject: Value, pattern: ast.pattern) -> bool | None:
    """Whether a pattern fits, where that is known; names of the pattern are bound."""
    if isinstance(pattern, ast.MatchValue):
        wanted = value(machine, pattern.value)
        if isinstance(subject, Host) and isinstance(wanted, Host) and subject.known and wanted.known:
            return subject.value == wanted.value
        return None
    if isinstance(pattern, ast.MatchSingleton):
        return subject.value is pattern.value if isinstance(subject, Host) and subject.known else None
    if isinstance(pattern, ast.MatchAs):
        known = True if pattern.pattern is None else matches(machine, subject, pattern.pattern)
        if pattern.name:
            machine.bind(pattern.name, subject, pattern)
        return known
    if isinstance(pattern, ast.MatchOr):
        known_each = [matches(machine, subject, each) for each in pattern.patterns]
        return True if True in known_each else None if None in known_each else False
    for each in ast.walk(pattern):
        name = getattr(each, "name", None) or getattr(each, "rest", None)
        if isinstance(name, str):
            machine.bind(name, item_of(machine, subject, pattern), pattern)
    return None


_EXPRESSIONS: dict[type, Callable[[Machine, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _bool_op,
    ast.IfExp: _if_exp,
    ast.Call: _call,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Set: _list,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.JoinedStr: _formatted_string,
    ast.NamedExpr: _walrus,
    ast.Lambda: _lambda,
    ast.Slice: _slice,
    ast.Starred: _starred,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}
