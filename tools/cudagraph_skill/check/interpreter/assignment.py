"""Bind values to the targets of assignments."""

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
    targets = target.elts
    starred = next((place for place, part in enumerate(targets) if isinstance(part, ast.Starred)), None)
    items = items_of(machine, value, target, len(targets) if starred is None else None)
    if starred is not None:
        items = _with_rest(machine, target, value, items, starred)
    for place, part in enumerate(targets):
        # More names than items: the program would fail here, so nothing is known of the rest.
        known = items is not None and place < len(items)
        assign(machine, part, items[place] if items is not None and known else sample_item(machine, value, target))


def _with_rest(
    machine: Machine, target: ast.Tuple | ast.List, value: Value, items: list[Value] | None, starred: int
) -> list[Value] | None:
    """Return the items with those of the starred name in a list; None where they are not known one by one."""
    if items is None or len(items) < len(target.elts) - 1:
        return None
    count = len(items) - len(target.elts) + 1
    rest = Sequence("list", items[starred : starred + count], machine.round, sample_item(machine, value, target))
    return [*items[:starred], rest, *items[starred + count :]]
