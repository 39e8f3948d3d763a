"""TODO."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.frames import BREAK, CONTINUE, RETURN
from cudagraph_skill.check.interpreter.reports import only_guard

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
    """Go on with the branch that is taken, or with both; a changing value that decides is a frozen branch."""
    if truth is not None and not origins:
        return then() if truth else otherwise()

    level = machine.quiet

    def leaving(run: Callable[[], int]) -> Callable[[], int]:
        def ran() -> int:
            status = machine.under(origins, run, node, level)
            if status in {RETURN, BREAK, CONTINUE} and origins:
                machine.left = origins
                if not only_guard(origins):
                    machine.emit(origins, node)
            return status

        return ran

    one, other = leaving(then), leaving(otherwise)
    if truth is None:
        return machine.fork(one, other)
    taken, missed = (one, other) if truth else (other, one)
    mark = len(machine.journal)
    machine.hushed(missed)
    machine.undo(mark)
    return taken()


def refills(node: ast.If) -> bool:
    """Whether a branch assigns what its condition asks about: `if self.mask is None or self.mask.shape[0] != n: self.mask = …`."""
    targets = {
        ast.unparse(target)
        for statement in node.body
        for inner in ast.walk(statement)
        if isinstance(inner, ast.Assign)
        for target in inner.targets
        if isinstance(target, (ast.Attribute, ast.Subscript))
    }
    asked = (
        {ast.unparse(each) for each in ast.walk(node.test) if isinstance(each, (ast.Attribute, ast.Subscript))}
        if targets
        else set()
    )
    return bool(targets & asked)
