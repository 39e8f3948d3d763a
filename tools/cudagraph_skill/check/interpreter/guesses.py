"""Guess what an argument is that nobody gives: by its annotation, by how the body uses it, by its name."""

from __future__ import annotations

import ast

from cudagraph_skill.check.interpreter.values import Host, Sequence, Tensor, Value, number, tensors_in

_SAMPLES = ("inputs", "get_inputs", "example_inputs", "sample_inputs", "make_inputs", "sample_args", "example_args")


_TENSOR_NAMES = {
    "x", "y", "z", "input", "inputs", "hidden_states", "hidden", "input_ids", "attention_mask", "mask", "logits", "labels", "target",
    "targets", "query", "key", "value", "q", "k", "v", "position_ids", "pixel_values", "inputs_embeds", "tokens", "images", "image",
    "data", "batch", "encoder_hidden_states", "token_type_ids", "features", "sample", "residual", "latents", "noise", "timestep",
    "timesteps", "grad", "weights", "bias", "boxes", "scores",
}  # fmt: skip


_TENSOR_ATTRIBUTES = {
    "shape", "size", "view", "reshape", "unsqueeze", "squeeze", "permute", "transpose", "contiguous", "detach", "mean", "sum",
    "softmax", "flatten", "expand", "masked_fill", "new_zeros", "numel", "to", "float", "device", "dtype", "dim", "clone", "chunk",
    "split", "matmul", "is_cuda", "argmax", "log_softmax", "type_as", "repeat", "half", "ndim", "item", "cpu", "tolist", "any", "all",
    "norm", "clamp", "backward", "masked_select", "nonzero", "unbind", "gather", "cumsum", "bool", "long", "int", "abs", "max", "min",
}  # fmt: skip


_SURE = _TENSOR_ATTRIBUTES - {
    "size",
    "to",
    "split",
    "item",
    "device",
    "dtype",
    "any",
    "all",
    "repeat",
    "max",
    "min",
    "cpu",
    "float",
    "int",
    "copy",
}


def guess(argument: ast.arg, node: ast.AST) -> Value:
    """What an argument is likely to be: by its annotation, by how the body uses it, by its name."""
    if argument.annotation is not None:
        annotated = _annotated(argument.annotation)
        if annotated is not None:
            return annotated
    used = _uses(node).get(argument.arg, set())
    if used & _SURE or (argument.arg in _TENSOR_NAMES and (used & _TENSOR_ATTRIBUTES or "argument" in used)):
        made = Tensor()
        made.optional = True
        return made
    return Value()


def takes_tensors(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function seems to take tensors, alone or in a list."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return any(tensors_in(guess(each, node)) for each in arguments)


def _annotated(annotation: ast.expr) -> Value | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            return None
    words = [
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(annotation)
        if isinstance(each, (ast.Name, ast.Attribute))
    ]
    tensors = [word for word in words if word.endswith("Tensor") and word != "PackedTensor"]
    optional = "Optional" in words or any(
        isinstance(each, ast.Constant) and each.value is None for each in ast.walk(annotation)
    )
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = outer.attr if isinstance(outer, ast.Attribute) else outer.id if isinstance(outer, ast.Name) else ""
    if (
        tensors
        and name in {"list", "List", "tuple", "Tuple", "Sequence", "Iterable", "Optional", "Union"}
        and name not in {"Optional", "Union"}
    ):
        return Sequence("list", None, 0, _tensor(tensors[0]))
    if tensors and not {"dict", "Dict", "Mapping", "list", "List", "tuple", "Tuple", "Callable", "Sequence"} & set(words):
        made = _tensor(tensors[0])
        made.optional = optional
        others = {"int", "float", "bool", "str", "Number"} & set(words)
        return Value() if others else made
    kinds = {"int": "int", "float": "float", "bool": "bool", "str": "str"}
    if name in kinds:
        return number() if name in {"int", "float"} else Host(kinds[name])
    return None


def _tensor(word: str) -> Tensor:
    dtype = {"LongTensor": "int", "IntTensor": "int", "BoolTensor": "bool", "FloatTensor": "float"}.get(word, "")
    return Tensor("cuda", None, dtype)


_USES: dict[ast.AST, dict[str, set[str]]] = {}


def _uses(node: ast.AST) -> dict[str, set[str]]:
    """For each name in a function: attributes that are read of it, and `argument` where a call gets it."""
    known = _USES.get(node)
    if known is not None:
        return known
    found: dict[str, set[str]] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            found.setdefault(each.value.id, set()).add(each.attr)
        elif isinstance(each, ast.Call):
            for argument in each.args:
                if isinstance(argument, ast.Name):
                    found.setdefault(argument.id, set()).add("argument")
        elif isinstance(each, ast.BinOp) and isinstance(each.op, ast.MatMult):
            for side in (each.left, each.right):
                if isinstance(side, ast.Name):
                    found.setdefault(side.id, set()).add("matmul")
    _USES[node] = found
    return found
