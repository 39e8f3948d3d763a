"""Guess what an argument is that nobody gives: by its annotation, by how the body uses it, by its name."""

from __future__ import annotations

import ast
from copy import deepcopy
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter import syntax
from cudagraph_skill.check.interpreter.remembered import remembered
from cudagraph_skill.check.interpreter.values import Array, Host, Mapping, Sequence, Tensor, Value, number, tensors_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

Aliases = dict[str, ast.expr]  # what a module's own names for types stand for

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

# What arrays have as well: it says nothing in a function that works on arrays
_OF_ARRAYS = {
    "shape", "view", "reshape", "squeeze", "transpose", "mean", "sum", "flatten", "ndim", "argmax", "tolist", "nonzero", "cumsum",
}  # fmt: skip

_OF_MAPPINGS = {"items", "keys", "get", "pop", "update"}

# Functions that take numbers, and those that take anything
_OF_NUMBERS = {
    "range", "int", "str", "linspace", "logspace", "arange", "zeros", "ones", "empty", "rand", "randn", "eye", "randperm",
}  # fmt: skip
_OF_ALL = {"isinstance", "len", "print", "repr", "hasattr", "getattr", "type", "list", "tuple", "set", "enumerate", "zip"}
# How code names libraries whose functions refuse GPU tensors, and those that take them
_HOST_LIBRARIES = {"np", "numpy", "cv2", "scipy", "pd", "pandas"}
_TENSOR_LIBRARIES = {"torch", "th", "F", "nn", "Tensor"}

_DTYPES = {"LongTensor": "int", "IntTensor": "int", "BoolTensor": "bool", "FloatTensor": "float"}
_LISTS = {"list", "List", "tuple", "Tuple", "Sequence", "Iterable"}
_MAPPINGS = {"dict", "Dict", "Mapping"}
_SCALARS = {"int", "float", "bool", "str", "Number"}
_ON_HOST = {"ndarray", "NDArray", "DataFrame", "Path", "PathLike", "Image"}


def guess(argument: ast.arg, node: ast.AST, aliases: Aliases) -> Value:
    """Return what an argument is likely to be: by its annotation, by how the body uses it, by its name."""
    if argument.annotation is not None:
        annotated = _annotated(argument.annotation, aliases)
        if annotated is not None:
            return annotated
    default = _default(argument, node)
    if isinstance(default, ast.Constant) and default.value is not None:
        return _scalar(type(default.value).__name__) or Value()
    if default is not None and not isinstance(default, (ast.Constant, ast.Call)):
        return Value()
    return _by_use(argument.arg, node)


def _by_use(name: str, node: ast.AST) -> Value:
    """Return what an argument is taken for by how the body uses it."""
    uses = _uses(node).get(name, set())
    if "array" in uses:  # numpy refuses GPU tensors; a function that asks which of both it has got takes either
        return Value() if "asked" in uses else Array()
    if uses & _OF_MAPPINGS:
        return Value()
    tensors = uses & _ONLY_OF_TENSORS
    if _works_on_arrays(node):
        tensors -= _OF_ARRAYS
        suits = False
    else:
        # A name such as `mask` says little alone; with a use that suits a tensor it is one.
        suits = name in _TENSOR_NAMES and "number" not in uses and bool(uses & _ALSO_OF_TENSORS or "argument" in uses)
    if not tensors and not suits:
        return Value()
    # Only a tensor on the CPU can be turned into an array as it is.
    tensor = Tensor("cpu" if "numpy" in uses else "cuda")
    tensor.optional = True
    return tensor


def _works_on_arrays(node: ast.AST) -> bool:
    """Tell whether a function calls numpy, and nothing of torch."""
    mentioned = syntax.names(node)
    return bool(mentioned & _HOST_LIBRARIES) and not mentioned & _TENSOR_LIBRARIES


def _default(argument: ast.arg, node: ast.AST) -> ast.expr | None:
    """Return the default of an argument."""
    arguments = getattr(node, "args", None)
    if not isinstance(arguments, ast.arguments):
        return None
    positional = [*arguments.posonlyargs, *arguments.args]
    optional = positional[len(positional) - len(arguments.defaults) :]
    pairs = [*zip(optional, arguments.defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return next((default for name, default in pairs if name is argument), None)


def takes_tensors(node: ast.AST, aliases: Aliases, others: Collection[ast.arg] = ()) -> bool:
    """Tell whether a function seems to take tensors, alone or in a list, with arguments that are not among `others`."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return any(tensors_in(guess(argument, node, aliases)) for argument in arguments if argument not in others)


@remembered
def aliases_in(tree: ast.Module) -> Aliases:
    """Return what a module gives a name of its own: `T = torch.Tensor`, `from torch import Tensor as T`, `type T = Tensor | None`."""
    aliases: Aliases = {}
    waiting: list[ast.stmt] = list(tree.body)
    for statement in waiting:  # grows on the way
        target = getattr(statement, "target", getattr(statement, "name", None))
        target = statement.targets[0] if isinstance(statement, ast.Assign) else target
        value = getattr(statement, "value", None)
        if isinstance(statement, (ast.If, ast.Try)):
            waiting += statement.body
        elif isinstance(statement, ast.ImportFrom):
            aliases |= {alias.asname: ast.Name(alias.name) for alias in statement.names if alias.asname}
        elif isinstance(target, ast.Name) and isinstance(value, ast.expr):
            aliases[target.id] = value
    # A name that says it itself needs no other, least of all `Tensor = TypeVar("torch.tensor")`.
    return {name: value for name, value in aliases.items() if not name.endswith("Tensor")}


class _Spelled(ast.NodeTransformer):
    """Put what names stand for in their place, each of them once."""

    def __init__(self, aliases: Aliases) -> None:
        self.aliases = aliases

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return what a name stands for."""
        rest = {name: value for name, value in self.aliases.items() if name != node.id}
        return _spelled(self.aliases[node.id], rest) if node.id in self.aliases else node


def _spelled(annotation: ast.expr, aliases: Aliases) -> ast.expr:
    """Return an annotation without the names that its module made up."""
    if not aliases.keys() & syntax.names(annotation):
        return annotation
    spelled: ast.expr = _Spelled(aliases).visit(deepcopy(annotation))
    return spelled


def _annotated(annotation: ast.expr, aliases: Aliases) -> Value | None:
    """Return what an annotation says; None where that is nothing about tensors or numbers."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            return None
    annotation = _spelled(annotation, aliases)
    # `list[Tensor]` is a list of tensors, `Optional[Tensor]` a tensor: the outermost name tells them apart.
    outer = _name(annotation.value if isinstance(annotation, ast.Subscript) else annotation)
    words = {_name(part) for part in ast.walk(annotation)} - {""}
    tensors = sorted(word for word in words if word.endswith("Tensor"))
    if tensors:
        return _of_tensors(annotation, words, _DTYPES.get(tensors[0], ""))
    # An array or a path is no tensor, whatever its name.
    return Value() if words & _ON_HOST else _scalar(outer)


def _of_tensors(annotation: ast.expr, words: set[str], dtype: str) -> Value:
    """Return what an annotation with tensors in it says."""
    if "Callable" in words:
        return Value()
    if words & _MAPPINGS:
        return Mapping(0, Tensor("cuda", None, dtype))
    if words & _LISTS:
        return Sequence("list", None, 0, Tensor("cuda", None, dtype))
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
    """Return for each name in a function the attributes that are read of it, and what else is done with it.

    `argument`: a call gets it; `number`: only a number suits; `array`: numpy gets it; `asked`: its type is asked for;
    `numpy`: it is turned into an array as it is, which only a tensor on the CPU allows.
    """
    uses: dict[str, set[str]] = {}
    for part in syntax.nodes(node):
        for name, use in _uses_in(part):
            uses.setdefault(name, set()).add(use)
    return uses


def _uses_in(part: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
        yield part.value.id, part.attr
    elif isinstance(part, ast.Call):
        yield from _given_to(part)
    elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.MatMult):
        yield from ((_variable(side), "matmul") for side in (part.left, part.right))
    elif isinstance(part, ast.Slice):
        yield from ((_variable(bound), "number") for bound in (part.lower, part.upper))
    elif isinstance(part, (ast.If, ast.IfExp)):
        yield _variable(part.test), "number"


def _given_to(call: ast.Call) -> Iterator[tuple[str, str]]:
    """Yield what a call says about the variables that it gets."""
    function = _variable(call.func)
    if function in _OF_ALL:
        yield from ((_variable(argument), "asked") for argument in call.args[:1] if function == "isinstance")
        return
    use = "number" if _name(call.func) in _OF_NUMBERS else "argument"
    yield from ((_variable(argument), use) for argument in call.args)
    owner, methods = _chain(call.func)
    if owner in _HOST_LIBRARIES:
        yield from ((name, "array") for argument in call.args for name in _contents(argument))
    elif methods[-1:] == ["numpy"] and not {"cpu", "to"} & set(methods):
        yield owner, "numpy"


def _chain(function: ast.AST) -> tuple[str, list[str]]:
    """Return the variable and the methods of `x.clone().clamp(0, 1).numpy`."""
    methods: list[str] = []
    while isinstance(function, (ast.Attribute, ast.Call)):
        if isinstance(function, ast.Attribute):
            methods.insert(0, function.attr)
        function = function.value if isinstance(function, ast.Attribute) else function.func
    return _variable(function), methods


def _contents(node: ast.AST) -> Iterator[str]:
    """Yield the variables whose contents an expression is made of."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, (ast.Subscript, ast.Starred)):
        yield from _contents(node.value)
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from (name for item in node.elts for name in _contents(item))
    elif isinstance(node, (ast.BinOp, ast.Compare)):
        sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
        yield from (name for side in sides for name in _contents(side))


def _variable(node: ast.AST | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""
