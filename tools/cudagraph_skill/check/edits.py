"""Mechanical corrections of a call: a keyword set, a number made on the GPU instead of copied there."""

from __future__ import annotations

import ast

from cudagraph_skill.check.findings import Edit


def keyword(call: ast.AST | None, name: str, value: str) -> Edit | None:
    """Give a call `name=value`, in place of another value for the same name; None for what is no call with its own arguments."""
    if not isinstance(call, ast.Call) or any(each.arg is None for each in call.keywords):
        return None
    for each in call.keywords:
        if each.arg == name:
            return _replace(each.value, value)
    given = [*call.args, *(each.value for each in call.keywords)]
    if not given:
        line, column = call.end_lineno or call.lineno, (call.end_col_offset or 1) - 1
        return Edit(line, column, line, column, f"{name}={value}")
    last = max(given, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0))
    if isinstance(last, ast.GeneratorExp) and len(given) == 1:
        return None  # its brackets may be the call's own
    line, column = last.end_lineno or last.lineno, last.end_col_offset or 0
    return Edit(line, column, line, column, f", {name}={value}")


def made_on_gpu(call: ast.AST) -> Edit | None:
    """`torch.tensor(3.0, device=…)` to `torch.full((), 3.0, device=…)`, which launches a fill and copies nothing."""
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
        or call.func.attr != "tensor"
        or len(call.args) != 1
    ):
        return None
    first, name = call.args[0], call.func
    if isinstance(first, ast.Starred) or name.end_lineno != first.lineno:
        return None
    return Edit(first.lineno, (name.end_col_offset or 0) - len("tensor"), first.lineno, first.col_offset, "full((), ")


def _replace(node: ast.expr, text: str) -> Edit:
    return Edit(node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset, text)
