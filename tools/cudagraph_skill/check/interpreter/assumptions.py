"""Take values of which nothing is known for GPU tensors where captured code uses them as such; what follows is likely, not certain."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Sequence, Tensor, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cudagraph_skill.check.interpreter.machine import Machine

# Methods that tensors have, and that captured code calls on hardly anything else
_OF_TENSORS = {
    "item", "cpu", "numpy", "tolist", "nonzero", "masked_select", "unique", "sum", "mean", "argmax", "argmin", "softmax", "log_softmax",
    "norm", "amax", "amin", "cumsum", "masked_fill", "clamp", "topk", "sigmoid", "relu", "logsumexp", "isnan", "isinf", "isfinite",
    "std", "var", "prod", "median", "min", "max", "any", "all",
}  # fmt: skip
# How code names what is on the host
_ON_HOST = re.compile(r"cpu|host|numpy|\bnp\b|_np\b|list|\bargs\b|config|cfg")


def tensor_for(machine: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """Return what an attribute is read of: an assumed tensor where an unknown value has a method of tensors."""
    unknown = type(owner) is Value and machine.inside and name in _OF_TENSORS
    if not unknown or not isinstance(node, ast.Attribute) or _ON_HOST.search(ast.unparse(node.value)):
        return owner
    return assumed(owner)


def picks_by_mask(machine: Machine, owner: Value, node: ast.AST) -> bool:
    """Return whether `owner[owner > 0]` is read in captured code, of something that is not known."""
    if type(owner) is not Value or not machine.inside or not isinstance(node, ast.Subscript):
        return False
    return isinstance(node.slice, ast.Compare) and ast.dump(node.slice.left) == ast.dump(node.value)


def assumed(value: Value) -> Tensor:
    """Return a tensor in place of a value of which nothing is known."""
    tensor = Tensor("cuda", sym=value.sym)
    tensor.assumed = True
    return tensor


def assuming(machine: Machine, operands: Iterable[Value], run: Callable[[], Value]) -> Value:
    """Run an operation of a library; if one of its operands is assumed, its result and what it reports are so as well."""
    if not any(map(_is_assumed, operands)):
        return run()
    machine.assuming += 1
    try:
        result = run()
    finally:
        machine.assuming -= 1
    if isinstance(result, Tensor):
        result.assumed = True
    return result


def _is_assumed(value: Value) -> bool:
    if isinstance(value, Sequence):
        return any(isinstance(item, Tensor) and item.assumed for item in value.each())
    return isinstance(value, Tensor) and value.assumed
