"""Make edits of a call: set a keyword, or create a number on the GPU instead of copying it there."""

from __future__ import annotations

import ast

from cudagraph_skill.check.findings import Edit


def keyword(call: ast.AST | None, name: str, value: str) -> Edit | None:
    """Set `name=value` in a call, in place of another value for that name; None if `call` has no arguments of its own."""
    if not isinstance(call, ast.Call) or any(argument.arg is None for argument in call.keywords):
        return None
    for argument in call.keywords:
        if argument.arg == name:
            return _replace(argument.value, value)
    given = [*call.args, *(argument.value for argument in call.keywords)]
    if not given:
        line, column = _end(call)
        return Edit(line, column - 1, line, column - 1, f"{name}={value}")
    last = max(given, key=_end)
    if isinstance(last, ast.GeneratorExp) and len(given) == 1:
        return None  # its parentheses may be the call's own
    line, column = _end(last)
    return Edit(line, column, line, column, f", {name}={value}")


def _end(node: ast.expr) -> tuple[int, int]:
    """Return the line and the column behind an expression."""
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def made_on_gpu(call: ast.AST) -> Edit | None:
    """Change `torch.tensor(3.0, device=…)` to `torch.full((), 3.0, device=…)`, which fills on the GPU and copies nothing."""
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
        or call.func.attr != "tensor"
        or len(call.args) != 1
    ):
        return None
    argument, name = call.args[0], call.func
    if isinstance(argument, ast.Starred) or name.end_lineno != argument.lineno:
        return None
    return Edit(argument.lineno, (name.end_col_offset or 0) - len("tensor"), argument.lineno, argument.col_offset, "full((), ")


def _replace(node: ast.expr, text: str) -> Edit:
    return Edit(node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset, text)
