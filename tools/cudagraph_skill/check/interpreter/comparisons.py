"""Compare values: `==`, `<`, `is`, `in`; and say which comparisons read a GPU tensor on the host."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.assumptions import assuming
from cudagraph_skill.check.interpreter.attributes import bind_member
from cudagraph_skill.check.interpreter.items import key_of
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Choice,
    Class,
    Function,
    Host,
    Instance,
    Mapping,
    Origins,
    Sequence,
    Tensor,
    Value,
    const,
    is_none,
    origins_of,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cudagraph_skill.check.interpreter.machine import Machine

_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_OTHER_DEVICES = {"mps", "xpu", "npu", "hpu", "mlu", "xla"}  # what captures runs on none of these
_NEVER_NONE = {"number", "extent", "size", "device", "str", "int", "float", "bool"}


def compare(machine: Machine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    """Return what one comparison is."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(op, left, right)
    if isinstance(op, (ast.In, ast.NotIn)):
        return _membership(machine, op, left, right, node)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _of_tensors(machine, left, right, node)
    if isinstance(left, Host) and isinstance(right, Host):
        return _of_hosts(machine, op, left, right)
    if isinstance(left, Sequence) and isinstance(right, Sequence):
        return _of_sequences(machine, left, right, node)
    if _names_other_device(left, right):
        return const(isinstance(op, ast.NotEq))
    if isinstance(left, Instance):
        method = left.cls.find("__eq__") if isinstance(op, ast.Eq) else None
        if method:
            return machine.call(bind_member(method[1], left), [right], {}, node)
        if _compares_fields(left, right):
            message = f"{quoted(node)} compares dataclasses field by field, which needs the truth of their GPU tensors"
            machine.report("CG205", node, message)
    return Host("bool", sym=mix(type(op).__name__, left.sym, right.sym), origins=origins_of([left, right]))


def _of_tensors(machine: Machine, left: Value, right: Value, node: ast.AST) -> Value:
    other = right if isinstance(left, Tensor) else left
    # Python answers these itself, without the numbers of the tensor.
    if is_none(other) or isinstance(other, (Sequence, Mapping)) or (isinstance(other, Host) and other.kind == "str"):
        return Host("bool")
    result = assuming(machine, [left, right], lambda: machine.library.elementwise(machine, [left, right], node))
    if isinstance(result, Tensor):
        result.dtype = "bool"
    return result


def _of_hosts(machine: Machine, op: ast.cmpop, left: Host, right: Host) -> Value:
    origins = left.origins | right.origins
    floor = machine.floor(left) if left.origins else None
    if floor is not None and isinstance(right.value, (int, float)) and not right.origins and floor > right.value:
        return const(isinstance(op, (ast.Gt, ast.GtE, ast.NotEq)))  # and so it will be at every later call
    if not (left.known and right.known):
        return Host("bool", sym=mix(type(op).__name__, left.sym, right.sym), origins=origins)
    try:
        return const(bool(_COMPARISONS[type(op)](left.value, right.value)), origins)
    except TypeError:
        return Host("bool", origins=origins)


def _of_sequences(machine: Machine, left: Sequence, right: Sequence, node: ast.AST) -> Value:
    pairs = zip(left.each(), right.each(), strict=False)
    # Lists compare items that are not one object, and a comparison of tensors is a tensor whose truth is asked for.
    if any(isinstance(one, Tensor) and isinstance(two, Tensor) and one.on_gpu and one is not two for one, two in pairs):
        machine.report("CG205", node, f"{quoted(node)} compares tensors in a list, which needs the truth of each comparison")
    return Host("bool", sym=mix("compare", left.sym, right.sym), origins=origins_of([left, right]))


def _compares_fields(left: Instance, right: Value) -> bool:
    if not isinstance(right, Instance) or right is left or not left.cls.find("__dataclass__"):
        return False
    return any(isinstance(field, Tensor) and field.on_gpu for field in left.slots.values())


def _names_other_device(left: Value, right: Value) -> bool:
    """Tell whether something unknown is compared with the name of a device that has no CUDA graphs."""
    pairs = ((left, right), (right, left))
    return any(type(one) is Value and isinstance(other, Host) and other.value in _OTHER_DEVICES for one, other in pairs)


# Identity -------------------------------------------------------------------------------------------------------------


def _identity(op: ast.Is | ast.IsNot, left: Value, right: Value) -> Value:
    same = _identical(left, right)
    if same is not None:
        return const(same is isinstance(op, ast.Is), left.origins | right.origins)
    # Whether it is the same list or tensor does not change with what is in it.
    changes = isinstance(left, Host) or isinstance(right, Host)
    origins = left.origins | right.origins if changes else NONE
    return Host("bool", sym=mix("is", left.sym, right.sym), origins=origins)


def _identical(left: Value, right: Value) -> bool | None:
    """Tell whether two values are one object; None where that is not known."""
    if is_none(right):
        return _known_none(left)
    if is_none(left):
        return _known_none(right)
    # Equal constants are mostly one object, and who compares them with `is` means so.
    if isinstance(left, Host) and isinstance(right, Host) and left.known and right.known:
        return left.value is right.value or left.value == right.value
    if isinstance(left, (Instance, Class, Function)) and isinstance(right, (Instance, Class, Function)):
        return left is right
    return None


def _known_none(value: Value) -> bool | None:
    # Code asks this of optional arguments above all: a tensor that nobody called optional is there.
    if isinstance(value, Tensor):
        return None if value.optional else False
    if isinstance(value, Host) and value.known:
        return value.value is None
    if isinstance(value, Host):
        return False if value.kind in _NEVER_NONE else None
    return None if isinstance(value, Choice) or type(value) is Value else False


# Membership -----------------------------------------------------------------------------------------------------------


def _membership(machine: Machine, op: ast.In | ast.NotIn, left: Value, right: Value, node: ast.AST) -> Value:
    if isinstance(right, Instance) and "[]" in right.slots and not right.cls.find("__contains__"):
        right = right.slots["[]"]  # a class that inherits from dict or list
    fault = _reads_gpu(left, right)
    if fault is not None:
        if fault:
            machine.report("CG205", node, f"{quoted(node)} {fault}")
        return Host("bool")
    origins = left.origins | right.origins
    known = False if _names_other_device(left, right) else _contains(machine, left, right, node)
    if known is not None:
        return const(known is isinstance(op, ast.In), origins | _marks_of_items(machine, right, node))
    method = right.cls.find("__contains__") if isinstance(right, Instance) else None
    if method:
        return machine.call(bind_member(method[1], right), [left], {}, node)
    return Host("bool", sym=mix("in", left.sym, right.sym), origins=origins | _marks_of_items(machine, right, node))


def _reads_gpu(left: Value, right: Value) -> str | None:
    """Return what a message says of a membership test on GPU tensors: nothing where it reads none; None where there is none."""
    if isinstance(right, Tensor) and right.on_gpu and not (isinstance(left, Host) and left.kind == "str"):
        return "asks on the host whether a GPU tensor contains a value"
    if not isinstance(right, Sequence) or not right.each():
        return None
    if not any(isinstance(value, Tensor) and value.on_gpu for value in (left, *right.each())):
        return None
    # A set and the keys of a dict look tensors up by their identity.
    return "" if right.kind in {"set", "keys"} else "compares a GPU tensor with each item and reads the result on the host"


def _marks_of_items(machine: Machine, container: Value, node: ast.AST) -> Origins:
    """Return the marks of a list that grows at every call."""
    # Whether it holds something changes with what it holds, even where the value is known not to be in it yet.
    return origins_of(machine.known_items(container, node) or []) if isinstance(container, Sequence) else NONE


def _contains(machine: Machine, wanted: Value, container: Value, node: ast.AST) -> bool | None:
    """Tell whether a container holds a value; None where that is not known."""
    if isinstance(container, Mapping):
        key = key_of(wanted)
        if key is None and not is_none(wanted):
            return None
        # The items whose keys are not known may have this one, too.
        return True if key in container.slots else None if container.rest is not None else False
    if not isinstance(wanted, Host) or not wanted.known:
        return None
    held = _known_values(machine, container, node)
    try:
        return None if held is None else wanted.value in held
    except TypeError:  # `1 in "text"`
        return None


def _known_values(machine: Machine, container: Value, node: ast.AST) -> Collection[object] | None:
    """Return the Python values that a container holds; None where one is not known."""
    if isinstance(container, Sequence):
        items = machine.known_items(container, node)
        known = [item.value for item in items or () if isinstance(item, Host) and item.known]
        return known if items is not None and len(known) == len(items) else None
    if isinstance(container, Host) and container.known and isinstance(container.value, (str, tuple, bytes)):
        return container.value
    return None
