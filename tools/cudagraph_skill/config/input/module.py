"""A Python file that is followed, and the files of the same tree of folders that it imports from."""

from __future__ import annotations

import ast
import re
import warnings
from functools import cached_property, lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MOST_FILES = 80
_LARGEST = 1_000_000  # bytes
_HIGHEST = 12  # folders above the file


class Module:
    """The syntax of one file.

    Attributes:
        names: What its statements bind; None until they are followed.
    """

    def __init__(self, tree: ast.Module, text: str, path: Path | None = None, files: dict[Path, Module] | None = None) -> None:
        self.tree = tree
        self.text = text
        self.path = path
        self.files = {} if files is None else files
        self.names: dict[str, object] | None = None

    @cached_property
    def offsets(self) -> list[int]:
        """Where each line begins, as Python counts lines."""
        return [0, *(match.end() for match in re.finditer("\r\n|\r|\n", self.text))]

    @cached_property
    def lines(self) -> list[str]:
        """The lines, with their ends."""
        return [self.text[start:end] for start, end in pairwise([*self.offsets, len(self.text)])]

    @property
    def used(self) -> frozenset[str]:
        """Names that the file calls or derives classes from."""
        return _used(self.tree)

    def imported(self, node: ast.ImportFrom) -> Module | None:
        """Return the file that an import names, where it lies below a folder above this one."""
        path = _found(self.path, node.module or "", node.level)
        if path is None or path in self.files or len(self.files) >= _MOST_FILES:
            return self.files.get(path) if path else None
        read = _read(path)
        if read is None:
            return None
        self.files[path] = Module(*read, path, self.files)
        return self.files[path]

    def source(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the offsets of a node; ast counts columns in bytes."""
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if not first or not last:
            return (0, 0)
        return self._offset(first, node.col_offset), self._offset(last, node.end_col_offset)  # type: ignore[attr-defined]

    def _offset(self, line: int, column: int) -> int:
        return self.offsets[line - 1] + len(self.lines[line - 1].encode()[:column].decode(errors="ignore"))


def parsed(text: str) -> ast.Module:
    """Return the syntax of a text, without Python's warnings about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _found(importing: Path | None, name: str, level: int) -> Path | None:
    """Return the file of a module, below a folder above the file that imports it."""
    if importing is None or not name:
        return None
    folders = list(importing.parents)[:_HIGHEST]
    for folder in folders[level - 1 : level] if level else folders:
        base = folder.joinpath(*name.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
    return None


def _read(path: Path) -> tuple[ast.Module, str] | None:
    """Return the syntax and the text of a file as it is now; None where it cannot be read."""
    try:
        status = path.stat()
        return _parsed(path, status.st_mtime_ns, status.st_size) if status.st_size <= _LARGEST else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=_MOST_FILES)
def _parsed(path: Path, _changed: int, _size: int) -> tuple[ast.Module, str]:
    text = path.read_text(encoding="utf-8")
    return parsed(text), text


@lru_cache(maxsize=_MOST_FILES)
def _used(tree: ast.Module) -> frozenset[str]:
    nodes = list(ast.walk(tree))
    calls = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    classes = (node for node in nodes if isinstance(node, ast.ClassDef))
    return frozenset(calls | {base.id for node in classes for base in node.bases if isinstance(base, ast.Name)})


class Imported(NamedTuple):
    """A name that an import binds, before its file is read."""

    node: ast.ImportFrom
    into: Module
    name: str


class Function(NamedTuple):
    """A function as a value.

    Attributes:
        module: The file that it stands in.
        names: What is bound where it is defined.
        positional: Arguments that `functools.partial` gives it, or the object that it is a method of.
        keywords: Keyword arguments that `functools.partial` gives it.
    """

    node: ast.FunctionDef
    module: Module
    names: dict[str, object]
    positional: tuple[object, ...] = ()
    keywords: Mapping[str, object] = MappingProxyType({})
