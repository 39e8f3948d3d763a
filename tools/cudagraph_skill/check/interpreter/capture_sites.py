"""Find where the source of a file captures, and which functions lead there; nothing is run for it."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.frames import Frame


def capture_paths(tree: ast.Module) -> list[list[ast.AST]]:
    """Paths of functions and classes down to each statement or call that may capture."""
    found: list[list[ast.AST]] = []
    waiting: list[tuple[ast.AST, list[ast.AST]]] = [(tree, [])]
    while waiting:
        node, path = waiting.pop()
        for child in ast.iter_child_nodes(node):
            inner = [*path, child] if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else path
            if isinstance(child, (ast.With, ast.AsyncWith)) and any(
                _ends_in(item.context_expr, "graph") for item in child.items
            ):
                found.append([*path, child])
            if isinstance(child, ast.Call) and _ends_in(child, "make_graphed_callables"):
                found.append([*path, child])
            waiting.append((child, inner))
    return sorted(found, key=lambda each: getattr(each[-1], "lineno", 0))


def roots(tree: ast.Module, done: set[int]) -> list[list[ast.AST]]:
    """Functions and methods from which a capture is reached, and that no other function of the file refers to."""
    reaching = {
        each.name for path in capture_paths(tree) if id(path[-1]) not in done for each in path[:-1] if hasattr(each, "name")
    }
    tops: list[ast.AST] = [
        each for each in tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    named = {getattr(each, "name", ""): each for each in tops}
    mentions = {name: _names_in(each) for name, each in named.items()}
    while True:
        more = {name for name, words in mentions.items() if words & reaching} - reaching
        if not more:
            break
        reaching |= more
    found: list[list[ast.AST]] = []
    for name, each in named.items():
        if name not in reaching or any(name in words for other, words in mentions.items() if other != name):
            continue
        if isinstance(each, ast.ClassDef):
            found += _methods_that_reach(each, reaching)
        else:
            found.append([each])
    return found


def nearest(tree: ast.Module, done: set[int]) -> list[list[ast.AST]]:
    """Functions and methods that hold a capture themselves."""
    found = []
    for path in capture_paths(tree):
        methods = 2 if isinstance(path[0], ast.ClassDef) else 1
        if id(path[-1]) not in done and len(path) > methods and path[:methods] not in found:
            found.append(path[:methods])
    return found


def _methods_that_reach(owner: ast.ClassDef, reaching: set[str]) -> list[list[ast.AST]]:
    methods = [each for each in owner.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    wanted = [each for each in methods if each.name in reaching and each.name != "__init__"]
    called = {word for each in methods for word in _names_in(each)}
    return [[owner, each] for each in wanted if each.name not in called] or [[owner, each] for each in wanted]


def builders(tree: ast.Module, classes: set[str]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions of the module that may make objects of these classes: they mention one, or something that does."""
    defined = {each.name: each for each in tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    words = {name: _names_in(each) for name, each in defined.items()}
    reaching = set(classes)
    while more := {name for name, said in words.items() if said & reaching} - reaching:
        reaching |= more
    found = [
        each for name, each in defined.items() if name in reaching and isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return sorted(found, key=lambda each: not words[each.name] & classes)[:6]


def _directly_in(body: list[ast.stmt], statement: ast.AST) -> bool:
    for each in body:
        if each is statement:
            return True
        if isinstance(each, (ast.With, ast.Try)) and _directly_in(each.body, statement):
            return True
    return False


def loops_with_replay(tree: ast.Module, statement: ast.AST) -> bool:
    """Whether a capture stands, unguarded, in a loop that also replays."""
    for loop in ast.walk(tree):
        if not isinstance(loop, (ast.For, ast.While)):
            continue
        if not _directly_in(loop.body, statement):
            continue
        if any(isinstance(each, ast.Call) and _ends_in(each, "replay") for each in ast.walk(loop)):
            return True
    return False


def replays(frame: Frame, statement: ast.AST) -> bool:
    """Whether the function that captures replays too."""
    for each in ast.walk(frame.module.tree):
        if (
            isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
            and each.name == frame.function
            and _directly_in(each.body, statement)
        ):
            return any(isinstance(call, ast.Call) and _ends_in(call, "replay") for call in ast.walk(each))
    return False


@lru_cache(maxsize=4000)
def _names_in(node: ast.AST) -> set[str]:
    """Names and attributes that a piece of code mentions; asked again for each function of a file."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} | {
        each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)
    }


def _ends_in(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (isinstance(function, ast.Attribute) and function.attr == name) or (
        isinstance(function, ast.Name) and function.id == name
    )


def is_reduce_overhead(node: ast.Call) -> bool:
    """Tell whether a call compiles with CUDA graphs."""
    mode = next((each.value for each in node.keywords if each.arg == "mode"), None)
    return isinstance(mode, ast.Constant) and mode.value == "reduce-overhead"
