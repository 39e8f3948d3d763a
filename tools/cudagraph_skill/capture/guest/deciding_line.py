"""Find the source line responsible for an operation: what chose it, bound its result, or read the number it was given."""

from __future__ import annotations

import ast
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from cudagraph_skill.capture.guest.stack import Frame

_DECIDES = (ast.If, ast.While, ast.For, ast.IfExp, ast.Match)
_JUMPS = (ast.Continue, ast.Break, ast.Return)
_BINDS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_PASSES = 4  # over the assignments before a line; each follows its value at least one further back
# Calls whose result is another one each time.
VOLATILE = (
    "random randint randrange choice choices uniform shuffle sample gauss normal rand permutation integers time perf_counter "
    "monotonic time_ns now today getenv environ next pop popleft get getrandbits item tolist rotate"
).split()


@cache
def _tree(path: str) -> ast.Module | None:
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node  # type: ignore[attr-defined]
    return tree


def _around(path: str, line: int) -> list[ast.AST]:
    """Return the nodes that contain a line, from its statement outwards up to and including the function."""
    tree = _tree(path)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _holds(node, line)] if tree else []
    if not statements:
        return []
    around: list[ast.AST] = [max(statements, key=lambda node: (node.lineno, -(node.end_lineno or 0)))]
    while not isinstance(around[-1], (*_FUNCTIONS, ast.Module)):
        around.append(around[-1].parent)  # type: ignore[attr-defined]
    return around


def _holds(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", 0) or 0)


def condition(frame: Frame) -> int:
    """Return the line that decides whether a line runs: a branch or loop around it or a jump before it; 0 if there is none."""
    around = _around(frame.path, frame.line)
    if not around:
        return 0
    lines = [line for inner, outer in pairwise(around) for line in _deciding(inner, outer)]
    if isinstance(around[0], _DECIDES) and around[0].lineno <= frame.line:
        lines.append(around[0].lineno)
    if not lines and any(isinstance(node, ast.IfExp) and _holds(node, frame.line) for node in ast.walk(around[0])):
        return frame.line
    return max(lines, default=0)


def _deciding(inner: ast.AST, outer: ast.AST) -> Iterator[int]:
    """Yield the lines of a node, and of the jumps in its blocks, that decide whether a statement in it runs."""
    if isinstance(outer, _DECIDES):
        yield outer.lineno
    for name in ("body", "orelse", "finalbody"):
        block = getattr(outer, name, None)
        if isinstance(block, list) and inner in block:
            before = block[: block.index(inner)]
            yield from (node.lineno for node in before if isinstance(node, ast.If) and _jumps(node))


def _jumps(node: ast.If) -> bool:
    return any(isinstance(part, _JUMPS) for part in ast.walk(node))


def binding(frame: Frame) -> int:
    """Return the line that binds a line's result to an attribute, an entry or an outer name; 0 if there is none."""
    around = _around(frame.path, frame.line)
    if not around or not isinstance(around[0], (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        return 0
    function, targets = around[-1], list(_targets(around[0]))
    if any(_outlives(target, function) for target in targets):
        return frame.line
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    later = [node for node in ast.walk(function) if getattr(node, "lineno", 0) > frame.line]
    bound = (
        node.lineno for node in later if isinstance(node, (ast.Assign, ast.AnnAssign)) and _passes_on(node, names, function)
    )
    handed = (node.lineno for node in later if isinstance(node, ast.Expr) and _hands_over(node, names))
    return next(chain(bound, handed), 0)


def _hands_over(node: ast.Expr, names: set[str]) -> bool:
    """Return whether a statement calls something, which may keep it, with one of the names."""
    return isinstance(node.value, ast.Call) and bool(names & _names_in(node))


def _passes_on(node: ast.Assign | ast.AnnAssign, names: set[str], function: ast.AST) -> bool:
    """Return whether an assignment binds one of the names to something that outlives the call."""
    if node.value is None or not names & _names_in(node.value):
        return False
    return any(_outlives(target, function) for target in _targets(node))


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _targets(node: ast.AST) -> Iterator[ast.AST]:
    given = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[attr-defined]
    for target in given:
        yield from target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _outlives(target: ast.AST, function: ast.AST) -> bool:
    """Return whether a target outlives the call: an attribute, an entry, a global or nonlocal name."""
    if isinstance(target, (ast.Attribute, ast.Subscript)):
        return True
    declared = [name for node in ast.walk(function) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names]
    return isinstance(target, ast.Name) and target.id in declared


def reading(frame: Frame, names: Collection[str]) -> int:
    """Return the line up to `frame.line` that reads one of `names` and feeds that line; 0 if there is none."""
    around = _around(frame.path, frame.line)
    if not around:
        return 0
    if _reads(around[0], names):
        return frame.line
    wanted, followed = _locals_of(around[0]), {frame.line}
    earlier = [node for node in ast.walk(around[-1]) if isinstance(node, _BINDS) and node.lineno <= frame.line]
    earlier.sort(key=lambda node: -node.lineno)
    for _ in range(_PASSES):
        for node in earlier:
            if node.lineno in followed or not wanted & _bound(node):
                continue
            followed.add(node.lineno)
            source = node.iter if isinstance(node, ast.For) else node.value
            if source is None:
                continue
            if _reads(source, names):
                return node.lineno
            wanted |= _locals_of(source)
    return 0


def _bound(node: ast.AST) -> set[str]:
    """Return the local names that an assignment or a loop binds."""
    return {target.id for target in _targets(node) if isinstance(target, ast.Name)}


def _reads(node: ast.AST, names: Collection[str]) -> bool:
    for part in ast.walk(node):
        if isinstance(part, (ast.FunctionDef, ast.ClassDef)) and part is not node:
            continue
        if _name(part) in names and isinstance(getattr(part, "ctx", None), ast.Load):
            return True
        if isinstance(part, ast.AugAssign) and not isinstance(part.target, ast.Name) and _name(part.target) in names:
            return True
    return False


def _name(node: ast.AST) -> str:
    """Return the name of a variable or an attribute, or the string key of an entry."""
    if isinstance(node, ast.Subscript):
        key = getattr(node.slice, "value", "")
        return key if isinstance(key, str) else ""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _locals_of(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def volatile(frame: Frame) -> int:
    """Return the line that feeds a line with a drawn, popped or external value; 0 if there is none."""
    return reading(frame, VOLATILE)


def stream_block(frame: Frame) -> int:
    """Return the line of the innermost `with` block around a line, which may switch the stream; 0 if there is none."""
    return next((node.lineno for node in _around(frame.path, frame.line) if isinstance(node, (ast.With, ast.AsyncWith))), 0)


def first(frames: Sequence[Frame], rule: Callable[[Frame], int]) -> Frame | None:
    """Return the innermost frame for which `rule` finds a line, moved to that line."""
    for frame in reversed(frames):
        line = rule(frame)
        if line:
            return frame._replace(line=line)
    return None
