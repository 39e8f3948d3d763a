"""Tell whether a condition holds, where that is known, and what makes it change from call to call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.input.modules import Module
from cudagraph_skill.check.interpreter.attributes import bind_member
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Bound,
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
    quoted,
)

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine

Truth = tuple[bool | None, Origins]


def holds(machine: Machine, node: ast.expr) -> Truth:
    """Return the truth of a condition where it is known, and what makes it change from call to call."""
    if isinstance(node, ast.BoolOp):
        return _holds_together(machine, node)
    return truth_of(machine, machine.value(node), node)


def _holds_together(machine: Machine, node: ast.BoolOp) -> Truth:
    decisive = isinstance(node.op, ast.Or)  # the truth of one operand that decides alone
    origins: Origins = NONE
    unknown = False
    for operand in node.values:
        truth, causes = holds(machine, operand)
        # An operand that decides alone makes the marks of the later ones irrelevant: they are not evaluated.
        origins |= causes
        if truth is decisive:
            return decisive, origins
        unknown = unknown or truth is None
    return (None if unknown else not decisive), origins


def truth_of(machine: Machine, value: Value, node: ast.AST) -> Truth:
    """Return the truth of a value; a tensor on the GPU has none during capture."""
    if isinstance(value, Tensor) and value.on_gpu:
        message = f"the truth of the GPU tensor {quoted(node)} is needed on the host"
        machine.report("CG202", node, message, certain=not value.assumed)
        return None, NONE
    if isinstance(value, Host):
        # A device without an index is known by its kind alone, which is an empty string where it is not.
        known = value.known and value.kind != "device"
        return (bool(value.value) if known else None), value.origins
    if isinstance(value, Sequence):
        return _truth_of_sequence(machine, value, node)
    if isinstance(value, Mapping):
        return (None if value.rest is not None else bool(value.slots)), NONE
    if isinstance(value, (Function, Bound, Class, Module)):
        return True, NONE
    if isinstance(value, Instance):
        return _truth_of_instance(machine, value, node)
    if isinstance(value, Object):
        return machine.library.truth(value), NONE
    return None, value.origins


def _truth_of_sequence(machine: Machine, value: Sequence, node: ast.AST) -> Truth:
    items = machine.known_items(value, node)
    if items is None:
        return None, value.origins
    # A list that grows at every call and was not empty before is not empty in any later call.
    if items and (id(value), "items") in machine.read_slots:
        return True, NONE
    return bool(items), value.origins


def _truth_of_instance(machine: Machine, value: Instance, node: ast.AST) -> Truth:
    # As Python asks: the truth of an object first, then its length.
    for name in ("__bool__", "__len__"):
        method = value.cls.find(name)
        if method:
            return truth_of(machine, machine.call(bind_member(method[1], value), [], {}, node), node)
    return True, NONE
