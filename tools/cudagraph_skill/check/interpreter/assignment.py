"""TODO."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.attributes import set_attribute
from cudagraph_skill.check.interpreter.items import items_of, sample_item, set_item
from cudagraph_skill.check.interpreter.values import Sequence, Value

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine


def assign(machine: Machine, target: ast.expr, value: Value) -> None:
    """Bind a value to a target of an assignment."""
    if isinstance(target, ast.Name):
        bind(machine, target.id, value, target)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(machine, target, value)
    elif isinstance(target, ast.Starred):
        assign(machine, target.value, value)
    elif isinstance(target, ast.Attribute):
        set_attribute(machine, target, machine.value(target.value), value)
    elif isinstance(target, ast.Subscript):
        set_item(machine, target, value)


def bind(machine: Machine, name: str, value: Value, node: ast.AST) -> None:
    """Give a name a value in the scope that it belongs to."""
    scope = machine.frame.scope
    machine.write(scope.declared.get(name, scope), name, value, node)


def _unpack(machine: Machine, target: ast.Tuple | ast.List, value: Value) -> None:
    wanted = target.elts
    starred = next((place for place, each in enumerate(wanted) if isinstance(each, ast.Starred)), None)
    items = items_of(machine, value, target, len(wanted) if starred is None else None)
    if starred is not None:
        known = items is not None and len(items) >= len(wanted) - 1
        rest = len(items) - len(wanted) + 1 if items is not None and known else 0
        middle = items[starred : starred + rest] if items is not None and known else None
        spread = Sequence("list", middle, machine.round, sample_item(machine, value, target))
        before = items[:starred] if items is not None and known else None
        after = items[starred + rest :] if items is not None and known else None
        items = [*before, spread, *after] if before is not None and after is not None else None
    for place, each in enumerate(wanted):
        known_item = items is not None and place < len(items)
        assign(machine, each, items[place] if items is not None and known_item else sample_item(machine, value, target))
