"""TODO."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.attributes import bind_member
from cudagraph_skill.check.interpreter.items import item_at, items_of, key_of, known_items, sample_item, set_item
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Array,
    Choice,
    Class,
    Function,
    Host,
    Instance,
    Mapping,
    Object,
    Origins,
    Sequence,
    Tensor,
    Value,
    const,
    is_none,
    joined,
    mix,
    origins_of,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_BIG = 1 << 62


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


def formatted(machine: Machine, parts: list[Value], node: ast.AST) -> Value:
    """A string made of values: text of a tensor is a read of its values."""
    for each in parts:
        machine.library.read_text(machine, each, node)
    return Host("str", sym=mix("text", *(each.sym for each in parts)), origins=origins_of(parts))


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
        one, other = known_items(machine, left, node), known_items(machine, right, node)
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
            return machine.call(bind_member(found[1], receiver), [other], {}, node)
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
        added = items_of(machine, new, node)
        if old.items is not None and added is not None:
            machine.write_items(old, [*old.items, *added], None, node)
        else:
            machine.write_items(old, None, joined([*old.each(), sample_item(machine, new, node)], machine.round), node)
        return old
    if isinstance(old, Instance):
        method = old.cls.find(f"__i{_DUNDER.get(type(node.op).__name__, '')}__")
        if method:
            return machine.call(bind_member(method[1], old), [new], {}, node)
    return binary(machine, type(node.op), old, new, node)


def update_item(machine: Machine, node: ast.AugAssign, target: ast.Subscript) -> None:
    """Run `owner[index] op= new`."""
    owner = machine.value(target.value)
    index = machine.value(target.slice)
    if isinstance(owner, Tensor):
        machine.library.update_index(machine, owner, index, machine.value(node.value), node)
        return
    old = item_at(machine, owner, index, target)
    result = in_place(machine, node, old, machine.value(node.value))
    if result is not old or isinstance(old, Host):
        set_item(machine, target, result)


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
            return machine.call(bind_member(found[1], left), [right], {}, node)
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
            return machine.call(bind_member(found[1], right), [left], {}, node)
    return Host("bool", sym=mix("in", left.sym, right.sym), origins=origins | _structure(machine, right, node))


def _structure(machine: Machine, container: Value, node: ast.AST) -> Origins:
    """Marks of a list that grows at every call."""
    if isinstance(container, Sequence):
        return origins_of(known_items(machine, container, node) or [])
    return NONE


def _contains(machine: Machine, wanted: object, container: Value, node: ast.AST) -> bool | None:
    if isinstance(container, Sequence):
        known = known_items(machine, container, node)
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
