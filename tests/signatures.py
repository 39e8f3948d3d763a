"""Read what a Python file defines, from its text: nothing is imported.

A claim is written as Python writes it. Each of these says that a name is there, and what follows `=` or `:` is its default,
its value or its annotation:

    make_graphed_callables(pool=None, capture_time_hooks)     a function or method, and arguments that it has
    TransformerConfig.cuda_graph_warmup_steps=3               a field of a class, a member of an enum, a constant of the module
    TransformerConfig.cuda_graph_impl: Literal['none', 'local']='none'
    --cuda-graph-scope(default='full')                        an option of a command line, and keywords of its add_argument()

An option of Megatron-LM also counts if its ArgumentGroupFactory makes it from the fields of a class.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Read = Callable[[str], str | None]  # the text of a file by its path in the package, or None if the package lacks it

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


class Claim(NamedTuple):
    """A name with dots, the arguments and keywords that it must have, its annotation and its value; each may be None."""

    name: str
    arguments: tuple[tuple[str, ast.expr | None], ...] = ()
    annotation: ast.expr | None = None
    value: ast.expr | None = None


def claim(text: str) -> Claim:
    """Return what `text` claims.

    Raises:
        ValueError: the text has none of the forms above.
    """
    flag = re.match(r"--[\w-]+", text)
    try:
        (statement,) = ast.parse(f"option{text[flag.end() :]}" if flag else text).body
    except (SyntaxError, ValueError):
        raise ValueError(f"not a signature: {text}") from None
    match statement:
        case ast.AnnAssign(target=target, annotation=annotation, value=value):
            made = Claim(ast.unparse(target), annotation=annotation, value=value)
        case ast.Assign(targets=[target], value=value):
            made = Claim(ast.unparse(target), value=value)
        case ast.Expr(value=ast.Call(func=func, args=names, keywords=keywords)):
            arguments: list[tuple[str, ast.expr | None]] = [(ast.unparse(name), None) for name in names]
            arguments += [(keyword.arg or "", keyword.value) for keyword in keywords]
            made = Claim(ast.unparse(func), tuple(arguments))
        case ast.Expr(value=target):
            made = Claim(ast.unparse(target))
        case _:
            raise ValueError(f"not a signature: {text}")
    return made._replace(name=flag[0]) if flag else made


def holds(text: str, path: str, read: Read) -> bool:
    """Return whether the file at `path` defines what `text` claims."""
    wanted, tree = claim(text), _tree(path, read)
    if tree is None:
        return False
    if wanted.name.startswith("--"):
        return any(_has_keywords(option, wanted) for option in _options(tree, path, wanted.name, read))
    return any(_is(node, wanted) for node in _find(tree, wanted.name.split(".")))


def _tree(path: str, read: Read) -> ast.Module | None:
    text = read(path)
    return None if text is None else _parsed(text)


@lru_cache(maxsize=200)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _body(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a module or class, and those below `if`, `try` and `with`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
            if not isinstance(child, (*_FUNCTION, ast.ClassDef)):
                yield from _body(child)
        elif isinstance(child, ast.ExceptHandler):
            yield from _body(child)


def _find(scope: ast.AST, names: list[str]) -> Iterator[ast.stmt]:
    """Yield the definitions of a name with dots: classes, functions and assignments."""
    for statement in _body(scope):
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                defined = [name]
            case ast.AnnAssign(target=ast.Name(id=name)):
                defined = [name]
            case ast.Assign(targets=targets):
                defined = [target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                continue
        if names[0] in defined:
            yield from [statement] if len(names) == 1 else _find(statement, names[1:])


def _is(node: ast.stmt, wanted: Claim) -> bool:
    if isinstance(node, ast.ClassDef) and wanted.arguments:
        inits = list(_find(node, ["__init__"]))
        fields = all(
            any(_is(field, Claim(name, value=value)) for field in _find(node, [name])) for name, value in wanted.arguments
        )
        return any(_is(init, wanted) for init in inits) if inits else fields
    if wanted.arguments:
        return isinstance(node, _FUNCTION) and all(_has_argument(node.args, *argument) for argument in wanted.arguments)
    if wanted.annotation and not (isinstance(node, ast.AnnAssign) and _same(node.annotation, wanted.annotation)):
        return False
    return wanted.value is None or (isinstance(node, ast.Assign | ast.AnnAssign) and _same(_default(node.value), wanted.value))


def _has_argument(arguments: ast.arguments, name: str, default: ast.expr | None) -> bool:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    named = [*zip(positional, [*defaults, *arguments.defaults], strict=True)]
    named += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return any(argument.arg == name and (default is None or _same(value, default)) for argument, value in named)


def _default(value: ast.expr | None) -> ast.expr | None:
    """Return the default of a field: that of `field(default=…)`, or what `field(default_factory=…)` makes."""
    if not isinstance(value, ast.Call) or ast.unparse(value.func) not in ("field", "dataclasses.field"):
        return value
    keywords = {keyword.arg: keyword.value for keyword in value.keywords}
    made = {"list": "[]", "dict": "{}"}.get(ast.unparse(keywords["default_factory"])) if "default_factory" in keywords else None
    return ast.parse(made, mode="eval").body if made else keywords.get("default", value)


def _same(one: ast.expr | None, other: ast.expr | None) -> bool:
    if one is None or other is None:
        return one is other
    try:
        first, second = ast.literal_eval(one), ast.literal_eval(other)
    except (ValueError, TypeError):
        return ast.unparse(one) == ast.unparse(other)
    sequences = isinstance(first, list | tuple) and isinstance(second, list | tuple)
    return list(first) == list(second) if sequences else (type(first), first) == (type(second), second)


def _has_keywords(option: dict[str, ast.expr], wanted: Claim) -> bool:
    return all(name in option and (value is None or _same(option[name], value)) for name, value in wanted.arguments)


def _options(tree: ast.Module, path: str, flag: str, read: Read) -> Iterator[dict[str, ast.expr]]:
    """Yield the keywords of each option `flag`: those of add_argument(), or those that a factory makes of a field."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            if any(isinstance(name, ast.Constant) and name.value == flag for name in call.args):
                yield {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        elif ast.unparse(call.func) == "ArgumentGroupFactory" and isinstance(call.args[0], ast.Name):
            excluded = next((keyword.value for keyword in call.keywords if keyword.arg == "exclude"), None)
            left_out = _strings(tree, excluded, call)
            for field in _fields(path, call.args[0].id, read):
                if ast.unparse(field.target) not in left_out:
                    yield from (keywords for name, keywords in _made(field) if name == flag)


def _strings(tree: ast.Module, value: ast.expr | None, call: ast.Call) -> set[str]:
    """Return the strings of a list, or those of the list last assigned to a name above `call`."""
    if isinstance(value, ast.Name):
        assigned = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and node.lineno < call.lineno and ast.unparse(node.targets[0]) == value.id
        ]
        value = max(assigned, key=lambda node: node.lineno).value if assigned else None
    return {str(node.value) for node in ast.walk(value) if isinstance(node, ast.Constant)} if value else set()


def _fields(path: str, name: str, read: Read) -> list[ast.AnnAssign]:
    """Return the annotated fields of a class that a file defines or imports, with those of its bases."""
    tree = _tree(path, read)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            bases = [field for base in node.bases for field in _fields(path, ast.unparse(base), read)]
            return bases + [field for field in node.body if isinstance(field, ast.AnnAssign)]
        if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            above = path.split("/")[: -node.level] if node.level else []
            stem = "/".join([*above, *(node.module or "").split(".")])
            found = _fields(f"{stem}.py", name, read) or _fields(f"{stem}/__init__.py", name, read)
            if found:
                return found
    return []


def _made(field: ast.AnnAssign) -> Iterator[tuple[str, dict[str, ast.expr]]]:
    """Yield the flags that ArgumentGroupFactory makes of a field, with their keywords."""
    name, default = ast.unparse(field.target).replace("_", "-"), _default(field.value)
    keywords = {"default": default} if default else {}
    if isinstance(field.annotation, ast.Subscript) and ast.unparse(field.annotation.value).endswith("Literal"):
        keywords["choices"] = field.annotation.slice
    prefixes = ("no-", "disable-") if isinstance(default, ast.Constant) and default.value is True else ("",)
    yield from ((f"--{prefix}{name}", keywords) for prefix in prefixes)
