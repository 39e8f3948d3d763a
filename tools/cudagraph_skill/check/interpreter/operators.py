"""Apply arithmetic and in-place operators."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.assumptions import assuming
from cudagraph_skill.check.interpreter.attributes import bind_member
from cudagraph_skill.check.interpreter.items import item_at, items_of, sample_item, set_item
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    Array,
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
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

# Limits within which an operator on known values is computed: a user's `10 ** 10 ** 10` must not cost the check its memory.
_LARGEST = 1 << 62
_LONGEST = 1000  # characters or items that are joined or repeated
_ITEMS = 64  # items of a list that are told apart

# The function that computes it, and the method that a class of the user's may have for it
_OPERATORS: dict[type, tuple[Callable[[Any, Any], Any], str]] = {
    ast.Add: (operator.add, "add"),
    ast.Sub: (operator.sub, "sub"),
    ast.Mult: (operator.mul, "mul"),
    ast.Div: (operator.truediv, "truediv"),
    ast.FloorDiv: (operator.floordiv, "floordiv"),
    ast.Mod: (operator.mod, "mod"),
    ast.Pow: (operator.pow, "pow"),
    ast.MatMult: (operator.matmul, "matmul"),
    ast.BitAnd: (operator.and_, "and"),
    ast.BitOr: (operator.or_, "or"),
    ast.BitXor: (operator.xor, "xor"),
    ast.LShift: (operator.lshift, "lshift"),
    ast.RShift: (operator.rshift, "rshift"),
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}


def binary(machine: Machine, kind: type, left: Value, right: Value, node: ast.AST) -> Value:
    """Return what `left op right` is."""
    overloaded = _overloaded(machine, kind, left, right, node)
    if overloaded is not None:
        return overloaded
    if kind is ast.Mod and _formats(left, right):
        return formatted(machine, right.each() if isinstance(right, (Sequence, Mapping)) else [right], node)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _of_tensors(machine, kind, left, right, node)
    if isinstance(left, Host) and isinstance(right, Host):
        return _of_hosts(kind, left, right)
    if isinstance(left, Sequence) or isinstance(right, Sequence):
        return _of_sequences(machine, kind, left, right, node)
    return _of_others(kind, left, right)


def _of_others(kind: type, left: Value, right: Value) -> Value:
    sym, origins = mix(kind.__name__, left.sym, right.sym), left.origins | right.origins
    if isinstance(left, Array) or isinstance(right, Array):
        return Array(sym=sym, origins=origins)
    if isinstance(left, Object) and left.name.startswith("pathlib."):
        return left  # `folder / name` is a path again
    if _stays_true(kind, left, right):
        return const(True, origins)
    return Value(sym, origins)


def _stays_true(kind: type, left: Value, right: Value) -> bool:
    """Tell whether `True | unknown` is asked for, which is as good as True."""
    sides = [side.value for side in (left, right) if isinstance(side, Host) and side.known]
    return kind is ast.BitOr and len(sides) == 1 and sides[0] is True


def _overloaded(machine: Machine, kind: type, left: Value, right: Value, node: ast.AST) -> Value | None:
    """Return what the method of a class of the user's makes of the operator; None where neither side has one."""
    name = _OPERATORS[kind][1]
    for receiver, other, prefix in ((left, right, ""), (right, left, "r")):
        method = receiver.cls.find(f"__{prefix}{name}__") if isinstance(receiver, Instance) else None
        if method:
            return machine.call(bind_member(method[1], receiver), [other], {}, node)
    return None


def _formats(left: Value, right: Value) -> bool:
    """Tell whether `left % right` puts values into a text."""
    if not isinstance(left, Host):
        return False
    # A number and a tensor have a remainder; of a text that is not known to be one, containers still say so.
    return isinstance(right, (Sequence, Mapping)) or (isinstance(right, Tensor) and left.kind == "str")


def formatted(machine: Machine, parts: list[Value], node: ast.AST) -> Value:
    """Return a string made of values: text of a tensor is a read of its values."""
    for part in parts:
        machine.library.read_text(machine, part, node)
    return Host("str", sym=mix("text", *(part.sym for part in parts)), origins=origins_of(parts))


def _of_tensors(machine: Machine, kind: type, left: Value, right: Value, node: ast.AST) -> Value:
    if kind is ast.Mult and isinstance(left, Sequence) and isinstance(right, Tensor) and right.on_gpu:
        message = f"{quoted(node)} repeats a list as often as a GPU tensor says: its value is read on the host"
        machine.report("CG207", node, message)
        return Sequence(left.kind, None, machine.round, joined(left.each(), machine.round))
    return assuming(machine, [left, right], lambda: machine.library.elementwise(machine, [left, right], node))


def _of_hosts(kind: type, left: Host, right: Host) -> Value:
    origins = left.origins | right.origins
    if _stays_true(kind, left, right):
        return const(True, origins)
    sym = mix(kind.__name__, left.sym, right.sym)
    if left.known and right.known and _is_cheap(kind, left.value, right.value):
        try:
            return const(_OPERATORS[kind][0](left.value, right.value), origins)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, MemoryError):
            return Host("", sym=sym, origins=origins)
    result = Host("str" if "str" in {left.kind, right.kind} else "number", sym=sym, origins=origins)
    if kind is ast.Add and left.least is not None and right.least is not None:
        result.least = left.least + right.least
    return result


def _is_cheap(kind: type, left: object, right: object) -> bool:
    """Tell whether the result of an operator on known values takes little time and memory."""
    sizes = [_size(left), _size(right)]
    if kind in {ast.Pow, ast.LShift}:
        return sizes[0] < 1e6 and sizes[1] < 64
    if kind is ast.Mod and isinstance(left, (str, bytes)):
        return False  # a width in the format may ask for any length
    if isinstance(left, (str, bytes, tuple)) or isinstance(right, (str, bytes, tuple)):
        return max(sizes) < _LONGEST
    return max(sizes) < _LARGEST


def _size(value: object) -> float:
    if isinstance(value, (int, float)):
        return abs(value)
    return len(value) if isinstance(value, (str, bytes, tuple)) else 0


def _of_sequences(machine: Machine, kind: type, left: Value, right: Value, node: ast.AST) -> Value:
    if kind is ast.Add and isinstance(left, Sequence) and isinstance(right, Sequence):
        return _concatenated(machine, left, right, node)
    sequence, times = (left, right) if isinstance(left, Sequence) else (right, left)
    if kind is ast.Mult and isinstance(sequence, Sequence) and isinstance(times, Host):
        return _repeated(machine, sequence, times)
    if isinstance(sequence, Sequence) and kind in {ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor}:
        # Which items two sets share is not worked out: any of the one may be there.
        return Sequence("set", None, machine.round, joined(sequence.each(), machine.round))
    return Value(mix(kind.__name__, left.sym, right.sym), left.origins | right.origins)


def _concatenated(machine: Machine, left: Sequence, right: Sequence, node: ast.AST) -> Sequence:
    before, after = machine.known_items(left, node), machine.known_items(right, node)
    if before is not None and after is not None:
        return Sequence(left.kind, [*before, *after], machine.round)
    return Sequence(left.kind, None, machine.round, joined([*left.each(), *right.each()], machine.round))


def _repeated(machine: Machine, sequence: Sequence, times: Host) -> Sequence:
    if sequence.items is not None and isinstance(times.value, int) and times.value * len(sequence.items) <= _ITEMS:
        return Sequence(sequence.kind, sequence.items * times.value, machine.round)
    repeated = Sequence(sequence.kind, None, machine.round, joined(sequence.each(), machine.round))
    repeated.origins = times.origins  # its length is frozen with the number
    return repeated


def unary(machine: Machine, op: ast.unaryop, operand: Value, node: ast.AST) -> Value:
    """Return what `-x`, `+x` or `~x` is."""
    if isinstance(operand, Tensor):
        return machine.library.elementwise(machine, [operand], node)
    if not isinstance(operand, Host):
        return Value(mix("unary", operand.sym), operand.origins)
    deprecated = isinstance(op, ast.Invert) and isinstance(operand.value, bool)  # Python >=3.12 warns of ~True
    if not operand.known or not isinstance(operand.value, (int, float)) or deprecated:
        return Host(operand.kind, sym=mix(type(op).__name__, operand.sym), origins=operand.origins)
    try:
        return const(_UNARY[type(op)](operand.value), operand.origins)
    except TypeError:
        return number(origins=operand.origins)


# In place -------------------------------------------------------------------------------------------------------------


def in_place(machine: Machine, node: ast.AugAssign, old: Value, new: Value) -> Value:
    """Return what `old op= new` leaves: the same tensor or list, changed, or a new number."""
    if isinstance(old, Tensor):
        return machine.library.update(machine, old, [new], node)
    if isinstance(old, Array):
        if isinstance(new, Tensor) and new.on_gpu:
            machine.report("CG203", node, f"{quoted(node)} needs a GPU tensor as a numpy array")
        machine.mutate(old, node, new)
        return old
    if isinstance(old, Sequence) and isinstance(node.op, ast.Add):
        _extend(machine, old, new, node)
        return old
    method = old.cls.find(f"__i{_OPERATORS[type(node.op)][1]}__") if isinstance(old, Instance) else None
    if method:
        return machine.call(bind_member(method[1], old), [new], {}, node)
    return binary(machine, type(node.op), old, new, node)


def _extend(machine: Machine, old: Sequence, new: Value, node: ast.AST) -> None:
    added = items_of(machine, new, node)
    if old.items is not None and added is not None:
        machine.write_items(old, [*old.items, *added], None, node)
    else:
        machine.write_items(old, None, joined([*old.each(), sample_item(machine, new, node)], machine.round), node)


def update_item(machine: Machine, node: ast.AugAssign, target: ast.Subscript) -> None:
    """Run `owner[index] op= new`."""
    owner = machine.value(target.value)
    index = machine.value(target.slice)
    if isinstance(owner, Tensor):
        machine.library.update_index(machine, owner, index, machine.value(node.value), node)
        return
    old = item_at(machine, owner, index, target)
    result = in_place(machine, node, old, machine.value(node.value))
    # What was changed in place stays where it is; a number is replaced.
    if result is not old or isinstance(old, Host):
        set_item(machine, target, result)
