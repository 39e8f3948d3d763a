"""Guess what an argument is that nobody gives: by its annotation, by how the body uses it, by its name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter import syntax
from cudagraph_skill.check.interpreter.remembered import remembered
from cudagraph_skill.check.interpreter.values import Host, Sequence, Tensor, Value, number, tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterator

_TENSOR_NAMES = {
    "x", "y", "z", "input", "inputs", "hidden_states", "hidden", "input_ids", "attention_mask", "mask", "logits", "labels", "target",
    "targets", "query", "key", "value", "q", "k", "v", "position_ids", "pixel_values", "inputs_embeds", "tokens", "images", "image",
    "data", "batch", "encoder_hidden_states", "token_type_ids", "features", "sample", "residual", "latents", "noise", "timestep",
    "timesteps", "grad", "weights", "bias", "boxes", "scores",
}  # fmt: skip
# Attributes that only tensors have, and those that arrays, numbers, strings or modules have as well
_ONLY_OF_TENSORS = {
    "shape", "view", "reshape", "unsqueeze", "squeeze", "permute", "transpose", "contiguous", "detach", "mean", "sum", "softmax",
    "flatten", "expand", "masked_fill", "new_zeros", "numel", "dim", "clone", "chunk", "matmul", "is_cuda", "argmax", "log_softmax",
    "type_as", "half", "ndim", "tolist", "norm", "clamp", "backward", "masked_select", "nonzero", "unbind", "gather", "cumsum",
    "bool", "long", "abs",
}  # fmt: skip
_ALSO_OF_TENSORS = {
    "size", "to", "split", "item", "device", "dtype", "any", "all", "repeat", "max", "min", "cpu", "float", "int",
}  # fmt: skip

# Functions that take numbers
_OF_NUMBERS = {"range", "int", "str"}

_DTYPES = {"LongTensor": "int", "IntTensor": "int", "BoolTensor": "bool", "FloatTensor": "float"}
_LISTS = {"list", "List", "tuple", "Tuple", "Sequence", "Iterable"}
_OTHER_CONTAINERS = {"dict", "Dict", "Mapping", "Callable"}
_SCALARS = {"int", "float", "bool", "str", "Number"}


def guess(argument: ast.arg, node: ast.AST) -> Value:
    """Return what an argument is likely to be: by its annotation, by how the body uses it, by its name."""
    if argument.annotation is not None:
        annotated = _annotated(argument.annotation)
        if annotated is not None:
            return annotated
    default = _default(argument, node)
    if isinstance(default, ast.Constant) and default.value is not None:
        return _scalar(type(default.value).__name__) or Value()
    uses = _uses(node).get(argument.arg, set())
    # A name such as `mask` says little alone; with a use that suits a tensor it is one.
    suits = uses & _ALSO_OF_TENSORS or "argument" in uses
    if uses & _ONLY_OF_TENSORS or (argument.arg in _TENSOR_NAMES and suits and "number" not in uses):
        tensor = Tensor()
        tensor.optional = True
        return tensor
    return Value()


def _default(argument: ast.arg, node: ast.AST) -> ast.expr | None:
    """Return the default of an argument."""
    arguments = getattr(node, "args", None)
    if not isinstance(arguments, ast.arguments):
        return None
    positional = [*arguments.posonlyargs, *arguments.args]
    optional = positional[len(positional) - len(arguments.defaults) :]
    pairs = [*zip(optional, arguments.defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return next((default for name, default in pairs if name is argument), None)


def takes_tensors(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a function seems to take tensors, alone or in a list."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return any(tensors_in(guess(argument, node)) for argument in arguments)


def _annotated(annotation: ast.expr) -> Value | None:
    """Return what an annotation says; None where that is nothing about tensors or numbers."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            return None
    # `list[Tensor]` is a list of tensors, `Optional[Tensor]` a tensor: the outermost name tells them apart.
    outer = _name(annotation.value if isinstance(annotation, ast.Subscript) else annotation)
    words = {_name(part) for part in ast.walk(annotation)} - {""}
    tensors = sorted(word for word in words if word.endswith("Tensor"))
    if not tensors:
        return _scalar(outer)
    dtype = _DTYPES.get(tensors[0], "")
    if outer in _LISTS:
        return Sequence("list", None, 0, Tensor("cuda", None, dtype))
    if words & (_LISTS | _OTHER_CONTAINERS):
        return _scalar(outer)
    # `Tensor | float` may be a number, of which nothing is to be reported.
    if words & _SCALARS:
        return Value()
    tensor = Tensor("cuda", None, dtype)
    constants = [part.value for part in ast.walk(annotation) if isinstance(part, ast.Constant)]
    tensor.optional = "Optional" in words or None in constants
    return tensor


def _scalar(name: str) -> Value | None:
    if name in {"int", "float"}:
        return number()
    return Host(name) if name in {"bool", "str"} else None


def _name(node: ast.AST) -> str:
    """Return the last part of a dotted name; nothing for other code."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@remembered
def _uses(node: ast.AST) -> dict[str, set[str]]:
    """Return for each name in a function the attributes that are read of it, `argument` where a call gets it, `number` where only one suits."""
    uses: dict[str, set[str]] = {}
    for part in syntax.nodes(node):
        for name, use in _uses_in(part):
            uses.setdefault(name, set()).add(use)
    return uses


def _uses_in(part: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
        yield part.value.id, part.attr
    elif isinstance(part, ast.Call):
        counts = isinstance(part.func, ast.Name) and part.func.id in _OF_NUMBERS
        for argument in part.args:
            yield _variable(argument), "number" if counts else "argument"
    elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.MatMult):
        yield from ((_variable(side), "matmul") for side in (part.left, part.right))
    elif isinstance(part, ast.Slice):
        yield from ((_variable(bound), "number") for bound in (part.lower, part.upper))
    elif isinstance(part, (ast.If, ast.IfExp)):
        yield _variable(part.test), "number"


def _variable(node: ast.AST | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""
