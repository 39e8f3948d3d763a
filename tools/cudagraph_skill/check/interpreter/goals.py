"""Lead the interpreter to a capture that the program as it stands does not reach: flags, counters and early returns are in the way."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter import syntax
from cudagraph_skill.check.interpreter.capture_sites import Definition, Path, capture_paths
from cudagraph_skill.check.interpreter.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Iterable

# Python calls these where the code names the class only
_CALLED_BY_CLASS = {"__init__", "__call__", "__enter__", "forward"}


class Goal:
    """A statement or call that captures, and the nodes on the ways to it."""

    def __init__(self, tree: ast.Module, path: Path) -> None:
        self.node = path[-1]
        self.reached = False
        self._leading = _leading(tree, path)

    def leads(self, nodes: Iterable[ast.AST]) -> bool:
        """Return whether one of these statements holds the capture, or mentions something that leads there."""
        return not self.reached and any(id(node) in self._leading for node in nodes)

    def way(self, node: ast.If) -> bool | None:
        """Return which branch leads to the capture: True for the body, False for the other; None if both or neither."""
        body, other = self.leads(node.body), self.leads(node.orelse)
        return body if body != other else None


@remembered
def leading_to_captures(tree: ast.Module) -> frozenset[int]:
    """Return the ids of all nodes on the ways to captures."""
    return frozenset().union(*(_leading(tree, path) for path in capture_paths(tree)))


def _leading(tree: ast.Module, path: Path) -> frozenset[int]:
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    mentions = _mentions(tree)
    leading: set[int] = set()
    waiting: list[ast.AST] = [path[-1]]
    followed: set[str] = set()
    while waiting:
        node: ast.AST | None = waiting.pop()
        within: list[ast.AST] = []
        while node is not None:
            leading.add(id(node))
            node = parents.get(node)
            if isinstance(node, (Definition, ast.ClassDef)):
                within.append(node)
        for name in _names_that_call(within) - followed:
            followed.add(name)
            waiting += mentions.get(name, ())
    return frozenset(leading)


def _names_that_call(within: list[ast.AST]) -> set[str]:
    """Return the names by which code elsewhere may call the innermost of these definitions, or the one that returns it."""
    functions = [node for node in within if isinstance(node, Definition)]
    names = {function.name for function in functions}
    if functions and functions[0].name in _CALLED_BY_CLASS:
        names |= {node.name for node in within if isinstance(node, ast.ClassDef)}
    return names - _CALLED_BY_CLASS


def _mentions(tree: ast.Module) -> dict[str, list[ast.AST]]:
    """Return where each name is read, as a variable or as an attribute."""
    mentions: dict[str, list[ast.AST]] = {}
    for node in syntax.nodes(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            mentions.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(node)
    return mentions
