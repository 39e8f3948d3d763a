"""Find the source line responsible for an operation: what chose it, bound its result, or read the number it was given."""

from __future__ import annotations

import ast
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from cudagraph_skill.capture.guest.stack import Frame

_DECIDES = (ast.If, ast.While, ast.For, ast.IfExp, ast.Match)
_JUMPS = (ast.Continue, ast.Break, ast.Return)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
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
    holding = [each for each in ast.walk(tree) if isinstance(each, ast.stmt) and _holds(each, line)] if tree else []
    if not holding:
        return []
    found: list[ast.AST] = [max(holding, key=lambda each: (each.lineno, -(each.end_lineno or 0)))]
    while not isinstance(found[-1], (*_FUNCTIONS, ast.Module)):
        found.append(found[-1].parent)  # type: ignore[attr-defined]
    return found


def _holds(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", 0) or 0)


def condition(frame: Frame) -> int:
    """Return the line that decides whether a line runs: a branch or loop around it or a jump before it; 0 if there is none."""
    around = _around(frame.path, frame.line)
    best = 0
    for inner, outer in pairwise(around):
        if isinstance(outer, _DECIDES):
            best = max(best, outer.lineno)
        for block in ("body", "orelse", "finalbody"):
            before = getattr(outer, block, None)
            if isinstance(before, list) and inner in before:
                earlier = before[: before.index(inner)]
                best = max([best, *(each.lineno for each in earlier if isinstance(each, ast.If) and _jumps(each))])
    if around and isinstance(around[0], _DECIDES) and around[0].lineno <= frame.line:
        best = max(best, around[0].lineno)
    inside = (
        [each for each in ast.walk(around[0]) if isinstance(each, ast.IfExp) and _holds(each, frame.line)] if around else []
    )
    return frame.line if inside and not best else best


def _jumps(node: ast.If) -> bool:
    return any(isinstance(part, _JUMPS) for part in ast.walk(node))


def binding(frame: Frame) -> int:
    """Return the line that binds a line's result to an attribute, an entry or an outer name; 0 if there is none."""
    around = _around(frame.path, frame.line)
    if not around or not isinstance(around[0], (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        return 0
    targets = list(_targets(around[0]))
    if any(_outside(each, around[-1]) for each in targets):
        return frame.line
    names = {each.id for each in targets if isinstance(each, ast.Name)}
    for node in ast.walk(around[-1]):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.lineno > frame.line and node.value is not None:
            read = {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
            if names & read and any(_outside(each, around[-1]) for each in _targets(node)):
                return node.lineno
    for node in ast.walk(around[-1]):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call) or node.lineno <= frame.line:
            continue
        if names & {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}:
            return node.lineno  # handed to something that keeps it
    return 0


def _targets(node: ast.AST) -> Iterator[ast.AST]:
    given = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[attr-defined]
    for target in given:
        yield from target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _outside(target: ast.AST, function: ast.AST) -> bool:
    """Return whether a target outlives the call: an attribute, an entry, a global or nonlocal name."""
    if isinstance(target, (ast.Attribute, ast.Subscript)):
        return True
    declared = [name for each in ast.walk(function) if isinstance(each, (ast.Global, ast.Nonlocal)) for name in each.names]
    return isinstance(target, ast.Name) and target.id in declared


def reading(frame: Frame, names: Collection[str]) -> int:
    """Return the line up to `frame.line` that reads one of `names` and feeds that line; 0 if there is none."""
    around = _around(frame.path, frame.line)
    if not around:
        return 0
    if _reads(around[0], names):
        return frame.line
    wanted, seen = _locals_of(around[0]), {frame.line}
    earlier = sorted(
        (each for each in ast.walk(around[-1]) if isinstance(each, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For))),
        key=lambda each: -each.lineno,
    )
    for _ in range(4):
        for node in earlier:
            bound = {each.id for each in _targets(node) if isinstance(each, ast.Name)}
            if node.lineno in seen or node.lineno > frame.line or not bound & wanted:
                continue
            seen.add(node.lineno)
            source = node.iter if isinstance(node, ast.For) else node.value
            if source is not None and _reads(source, names):
                return node.lineno
            wanted |= _locals_of(source) if source is not None else set()
    return 0


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


def first(frames: Sequence[Frame], rule: object) -> Frame | None:
    """Return the innermost frame for which `rule` finds a line, moved to that line."""
    for frame in reversed(frames):
        line = rule(frame)  # type: ignore[operator]
        if line:
            return frame._replace(line=line)
    return None
