"""TODO."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.input.modules import Module
from cudagraph_skill.check.interpreter.attributes import bind_member
from cudagraph_skill.check.interpreter.items import known_items
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Array,
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


def holds(machine: Machine, node: ast.expr) -> tuple[bool | None, Origins]:
    """The truth of a condition where it is known, and what makes it change from call to call."""
    if isinstance(node, ast.BoolOp):
        return _test_all(machine, node)
    return truth_of(machine, machine.value(node), node)


def _test_all(machine: Machine, node: ast.BoolOp) -> tuple[bool | None, Origins]:
    decides = isinstance(node.op, ast.Or)
    found: Origins = NONE
    unknown = False
    for operand in node.values:
        one, origins = holds(machine, operand)
        found |= origins
        if one is decides:
            return decides, found
        unknown = unknown or one is None
    return (None if unknown else not decides), found


def truth_of(machine: Machine, found: Value, node: ast.AST) -> tuple[bool | None, Origins]:
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
    known = known_items(machine, found, node)
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
            return truth_of(machine, machine.call(bind_member(machine, method[1], found), [], {}, node), node)
    return True, NONE
