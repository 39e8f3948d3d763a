"""Keep the calls that are being followed, and say where in the source one stands."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.input.modules import Module
    from cudagraph_skill.check.interpreter.values import Class, Scope, Value

NEXT, CONTINUE, BREAK, RETURN, RAISE = range(5)  # how a statement leaves its block
_SHOWN = 6  # innermost calls that a finding lists
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

Site = tuple[str, int, int]  # path, line and column


class Exhausted(Exception):  # noqa: N818 - a signal, not an error
    """The code is larger than the budget; its argument is whether captured code was being read."""


class Frame:
    """One call that is being followed."""

    __slots__ = ("call", "catch", "cls", "function", "given", "module", "node", "on_yield", "receiver", "returned", "scope")

    def __init__(self, module: Module, scope: Scope, function: str, call: ast.AST | None = None) -> None:
        self.module = module
        self.scope = scope
        self.function = function
        self.call = call  # the call expression; the tree for a module, the definition for a class body
        self.returned: list[Value] = []
        self.on_yield: Callable[[Value], int] | None = None
        # What a bare `super()` needs: the class that holds the method, and its first argument.
        self.cls: Class | None = None
        self.receiver: Value | None = None
        # What tells a call within itself from a call that gets somewhere: the function, and its arguments.
        self.node: ast.AST | None = None
        self.given: list[Value] = []
        self.catch = False  # inside a try that catches


class Frames:
    """The calls that are being followed, outermost first."""

    def __init__(self, main_path: str) -> None:
        self.main_path = main_path
        self.frames: list[Frame] = []
        self.named = False  # the outermost call is the captured function itself

    @property
    def frame(self) -> Frame:
        """The innermost call."""
        return self.frames[-1]

    def site(self, node: ast.AST) -> Site:
        """Return path, line and column of a piece of code that is being followed."""
        # Between calls nothing is followed: what a hook then reports stands in the file that was named.
        path = self.frames[-1].module.path if self.frames else self.main_path
        # A module has no line, and editors count columns from 1.
        return path, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1

    def via(self) -> tuple[str, ...]:
        """Return the calls that lead here, outermost first."""
        steps: list[tuple[str, bool]] = []
        for caller, callee in zip(self.frames, self.frames[1:], strict=False):
            # The call of a function that nobody calls is made up, at its definition: no line of the user's makes it.
            if callee.call is not None and not isinstance(callee.call, _DEFINITIONS):
                step = f"{caller.module.path}:{_line(callee.call)} in {caller.function}"
                steps.append((step, caller.module.installed))
        shown = steps[-_SHOWN:]
        if shown and all(installed for _, installed in shown):
            # However deep a library is: the line of the user's that leads into it comes first.
            shown = [*[step for step in steps if not step[1]][-1:], *shown[1:]]
        return tuple(step for step, _ in shown)


def _line(call: ast.AST) -> int:
    """Return the line of a call; of one that is split before a dot, the line of the method's name."""
    return (call.func.end_lineno or 0) if isinstance(call, ast.Call) else getattr(call, "lineno", 0)
