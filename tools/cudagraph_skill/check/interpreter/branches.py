"""Decide which branches are followed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter import syntax
from cudagraph_skill.check.interpreter.assignment import assign, bind
from cudagraph_skill.check.interpreter.frames import BREAK, CONTINUE, NEXT, RETURN
from cudagraph_skill.check.interpreter.reports import only_guard
from cudagraph_skill.check.interpreter.values import Array, Host, Value, const

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine
    from cudagraph_skill.check.interpreter.values import Origins


def decide(
    machine: Machine,
    truth: bool | None,
    origins: Origins,
    then: Callable[[], int],
    otherwise: Callable[[], int],
    node: ast.AST | None = None,
) -> int:
    """Go on with the branch that is taken, or with both; where a changing value decides, the graph freezes the branch."""
    if truth is not None and not origins:
        return then() if truth else otherwise()

    level = machine.quiet  # that of the condition: the branch that is not taken runs more quietly

    def noting(run: Callable[[], int]) -> Callable[[], int]:
        def run_and_note() -> int:
            status = machine.under(origins, run, node, level)
            if status in {RETURN, BREAK, CONTINUE} and origins:
                machine.left = origins
                # Whatever stands behind this branch runs or not as it did at capture.
                if not only_guard(origins):
                    machine.emit(origins, node)
            return status

        return run_and_note

    if truth is None:
        return machine.perhaps(node, lambda: machine.fork(noting(then), noting(otherwise)))
    taken, missed = (noting(then), noting(otherwise)) if truth else (noting(otherwise), noting(then))
    # The other branch is looked at first, for the GPU work in it that the graph will lack.
    mark = len(machine.journal)
    left = machine.hushed(missed) in {RETURN, BREAK, CONTINUE}
    machine.undo(mark)
    status = taken()
    if left and status == NEXT and not only_guard(origins):
        machine.emit(origins, node)  # what stands behind would not run in the calls that leave here
    return status


def refills(node: ast.If | ast.While) -> bool:
    """Tell whether a branch assigns what its condition asks about: a cache, which is full after the first call.

    `if self.mask is None or self.mask.shape[0] != n: self.mask = …`
    """
    targets = {
        ast.unparse(target)
        for statement in node.body
        for inner in syntax.nodes(statement)
        if isinstance(inner, (ast.Assign, ast.AugAssign))
        for target in (inner.targets if isinstance(inner, ast.Assign) else [inner.target])
        if isinstance(target, (ast.Attribute, ast.Subscript))
    }
    if not targets:
        return False
    return any(
        ast.unparse(part) in targets for part in syntax.nodes(node.test) if isinstance(part, (ast.Attribute, ast.Subscript))
    )


def takes_either(machine: Machine, node: ast.If) -> None:
    """Bind an array in the branch that `if isinstance(x, Tensor): x = x.cpu().numpy()` leaves for what is no tensor."""
    test = node.test
    if not (isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance" and test.args):
        return
    name = test.args[0]
    if not isinstance(name, ast.Name) or not any(word.endswith("Tensor") for word in syntax.words(test)):
        return
    assigned = [target for statement in node.body if isinstance(statement, ast.Assign) for target in statement.targets]
    if any(isinstance(target, ast.Name) and target.id == name.id for target in assigned) and type(machine.value(name)) is Value:
        bind(machine, name.id, Array(), node)


def assume(machine: Machine, test: ast.expr, truth: bool) -> None:
    """Take a condition to hold, or not to, from now on: flags that it asks about get that value."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        assume(machine, test.operand, not truth)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is truth:
        for operand in test.values:
            assume(machine, operand, truth)
    elif isinstance(test, (ast.Name, ast.Attribute)):
        value = machine.value(test)
        if isinstance(value, Host) and value.kind in {"bool", "NoneType", ""}:
            stored = type(test)(**{field: getattr(test, field) for field in test._fields if field != "ctx"}, ctx=ast.Store())
            assign(machine, ast.copy_location(stored, test), const(truth))
