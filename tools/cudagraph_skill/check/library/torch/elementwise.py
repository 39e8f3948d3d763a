"""What an operator on tensors and numbers gives."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import Host, Tensor, Value, origins_of
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import ops, results, state

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine


def elementwise(machine: Machine, operands: list[Value], node: ast.AST) -> Tensor:
    """Return the result of an operator."""
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    on_gpu = [tensor for tensor in tensors if tensor.on_gpu]
    if on_gpu:
        machine.gpu_work(node, *operands)
        return _on_gpu(machine, operands, on_gpu, node)
    made = Tensor(
        "cpu",
        tensors[0].ndim if tensors else None,
        sym=mix("op", *(operand.sym for operand in operands)),
        origins=origins_of(operands),
    )
    for tensor in tensors:
        state.on_host_read(machine, tensor, node)
    return made


def _on_gpu(machine: Machine, operands: list[Value], tensors: list[Tensor], node: ast.AST) -> Tensor:
    made = results.result(machine, ops.UNLISTED, bind("input", operands, {}), tensors)
    if not isinstance(made, Tensor):
        raise TypeError("an operator gives one tensor")
    known = [tensor.ndim for tensor in tensors if tensor.ndim is not None]
    made.ndim = max(known) if len(known) == len(tensors) else None
    made.first = tensors[0].first if len(tensors) == 1 or made.ndim == tensors[0].ndim else None
    made.dtype = _dtype(made.dtype, operands, tensors, node)
    return made


def _dtype(usual: str, operands: list[Value], tensors: list[Tensor], node: ast.AST) -> str:
    """Return the kind of numbers that an operator gives, where operations on these tensors give the `usual` one."""
    kinds = {tensor.dtype for tensor in tensors}
    if kinds <= {"int", "bool"} and (_is_division(node) or any(_is_float(operand) for operand in operands)):
        return "float"
    if kinds == {"bool"}:
        return "bool" if _is_logic(node) else ""
    return usual


def _is_division(node: ast.AST) -> bool:
    return isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div)


def _is_float(operand: Value) -> bool:
    return isinstance(operand, Host) and isinstance(operand.value, float)


def _is_logic(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor))
    return isinstance(node, (ast.UnaryOp, ast.AugAssign))
