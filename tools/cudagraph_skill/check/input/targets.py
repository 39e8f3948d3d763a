"""Resolve command-line targets (`FILE`, `FILE:FUNCTION`, folders) to files to check."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.check.input.settings import excluded
from cudagraph_skill.check.input.source import read_source
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.check.input.settings import Options
    from cudagraph_skill.check.input.source import Source

    _Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_SUFFIXES = (".py", ".ipynb")
_LISTED = 12  # names in a message


class Target(NamedTuple):
    """Name one file and, if the user gave one, the function or class in it that is captured."""

    path: str
    function: str | None


def split(target: str) -> Target:
    """Split `FILE:FUNCTION`. The longest prefix that exists is the file, since file names may contain colons.

    Raises:
        SkillError: there is no such file.
    """
    if not target or "\0" in target:
        raise SkillError("the name of the file is empty: give FILE, FILE:FUNCTION or a folder")
    path, function = target, ""
    while not _there(path):
        path, colon, tail = path.rpartition(":")
        function = f"{tail}:{function}" if function else tail
        if not colon or not path:
            raise _no_file(target)
    if function and not _is_name(function):
        raise SkillError(f"{target}: `{function}` after the colon is not a function name: give FILE:FUNCTION")
    if target.endswith(":") and path != target:
        raise SkillError(f"{path}: no function follows the colon: give FILE:FUNCTION")
    if function and os.path.isdir(path):  # noqa: PTH112 - never raises
        raise SkillError(f"{target}: {path} is a folder; name the file that has `{function}`")
    return Target(path, function or None)


def _is_name(function: str) -> bool:
    """Return whether it is a dotted name, as `__qualname__` spells it."""
    return all(part.isidentifier() or part in {"<locals>", "<lambda>"} for part in function.split("."))


def expand(targets: list[str], options: Options) -> list[Target]:
    """Return all files to read, each once, in the order of the targets and by name inside a folder.

    A folder that may not be read is one of them: reading it gives a note.

    Raises:
        SkillError: a file is not there, or a folder has no Python in it.
    """
    unique: dict[Target, None] = {}
    for target in map(split, targets):
        if os.path.isdir(target.path):  # noqa: PTH112 - never raises
            below = [Target(path, None) for path in _files(target.path, options)]
            if not below:
                raise SkillError(f"{target.path}: this folder has no Python file, excluded ones not counted")
            unique.update(dict.fromkeys(below))
        else:
            unique[target] = None
    return list(unique)


def _there(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - says why it fails
    except PermissionError:  # in a folder that may not be read: reading the file gives a note
        return True
    except (OSError, ValueError):  # too long for a name
        return False
    return True


def _no_file(target: str) -> SkillError:
    from difflib import get_close_matches  # noqa: PLC0415 - only after a mistake

    path = Path(target[:4000].partition(":")[0])
    if os.path.lexists(path):
        return SkillError(f"{path}: this link leads to no file; name one that is there, as FILE or FILE:FUNCTION")
    try:
        beside = [name for name in os.listdir(path.parent) if name.endswith(_SUFFIXES)]  # noqa: PTH208 - names are what is needed
    except (OSError, ValueError):
        beside = []
    near = get_close_matches(path.name, beside, 1)
    hint = f"did you mean {path.with_name(near[0])}?" if near else "name one that is there, as FILE or FILE:FUNCTION"
    return SkillError(f"{target[:300]}: there is no such file; {hint}")


def _files(folder: str, options: Options) -> Iterator[str]:
    locked: list[str] = []
    for root, folders, names in os.walk(folder, onerror=lambda error: locked.append(error.filename)):
        folders[:] = sorted(name for name in folders if not excluded(Path(root, name), options))
        for name in sorted(names):
            if name.endswith(_SUFFIXES) and not excluded(Path(root, name), options):
                yield os.path.join(root, name).removeprefix("./")  # noqa: PTH118 - otherwise as the user wrote it
    yield from (path.removeprefix("./") for path in sorted(locked))


def names(tree: ast.Module) -> list[str]:
    """Return the qualified names of all functions, methods and classes, without `<locals>`, in the order of the file."""
    return list(dict.fromkeys(name for name, _ in _defined(tree)))


def _defined(tree: ast.Module) -> Iterator[tuple[str, _Definition]]:
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, prefix = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{prefix}{node.name}", node
            prefix = f"{prefix}{node.name}."
        waiting += [(child, prefix) for child in reversed(list(ast.iter_child_nodes(node))) if isinstance(child, _HOLDS)]


_HOLDS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def at_line(path: str, line: int, function: str) -> str:
    """Return the target to check for a frame of a traceback: FILE:FUNCTION with the function's qualified name.

    Return FILE alone for code outside a function, and for a function that captures or replays and so is not captured itself.
    """
    last = function.rpartition(".")[2]
    if not last.isidentifier():
        return path
    source = read_source(path) if Path(path).is_file() else None
    if source is None or source.tree is None:
        return f"{path}:{function}"
    here = [(name, node) for name, node in _defined(source.tree) if name.rpartition(".")[2] == last]
    here = [match for match in here if match[1].lineno <= line <= (match[1].end_lineno or 0)] or here
    if len({name for name, _ in here}) != 1:
        return path
    name, node = here[-1]
    text = "\n".join(source.text.split("\n")[node.lineno - 1 : node.end_lineno])
    return path if drives_graph(text) else f"{path}:{name}"


def drives_graph(text: str) -> bool:
    """Return whether a piece of source captures or replays a graph."""
    calls = ("cuda.graph(", "make_graphed_callables(", "capture_begin(", "capture_end(", ".replay(")
    return any(call in text for call in calls)


def no_function(source: Source, function: str) -> SkillError:
    """Return the error for a function that the file lacks, with near names and those it has."""
    from difflib import get_close_matches  # noqa: PLC0415 - only after a mistake

    known = names(source.tree) if source.tree else []
    if not known:
        return SkillError(f"{source.path} has no function `{function}`; it defines no function at all")
    last = function.rpartition(".")[2]
    near = [name for name in known if name.rpartition(".")[2] == last] or get_close_matches(function, known, 2)
    hint = f"did you mean {' or '.join(f'`{name}`' for name in near[:2])}? " if near else ""
    rest = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return SkillError(f"{source.path} has no function `{function}`; {hint}it has: {', '.join(known[:_LISTED])}{rest}")
