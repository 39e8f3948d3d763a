"""Find the modules that the user's imports name, and parse each once."""

from __future__ import annotations

import ast
import math
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.check.input import packages
from cudagraph_skill.check.input.source import read_source
from cudagraph_skill.check.interpreter.values import Instance, Scope, Value

if TYPE_CHECKING:
    from cudagraph_skill.check.input.source import Source

_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_KNOWN = {"transformer_engine", "tensordict"}  # beside torch, which lies in no repository that uses it
_OPENED = 60  # modules of installed packages that are read for one file


class Module(Value):
    """Hold one file, opened when needed, and the scope that running it fills; `name` is its dotted name, if known."""

    __slots__ = ("_begins_captures", "installed", "name", "path", "place", "scope", "source", "started")

    def __init__(self, name: str, place: Path, shown: str, source: Source | None = None) -> None:
        super().__init__()
        self.source = source
        self.place = place
        self.path = shown
        self.name = name
        self.scope = Scope(0)
        self.started = False
        self.installed = False  # a part of a package that is not the user's
        self._begins_captures: bool | None = None

    @property
    def tree(self) -> ast.Module:
        """Return the syntax tree; an empty one if the file cannot be parsed."""
        if self.source is None:
            self.source = _parsed(self.path, _stamp(self.place))
        return self.source.tree or ast.Module(body=[], type_ignores=[])

    @property
    def begins_captures(self) -> bool:
        """Return whether the file mentions `capture_begin`; asked for each block of statements."""
        if self._begins_captures is None:
            self._begins_captures = self.source is not None and "capture_begin" in self.source.text
        return self._begins_captures


@lru_cache(maxsize=400)
def _parsed(path: str, stamp: tuple[int, int]) -> Source:
    """Parse an imported file once, and again when its `stamp` changes."""
    del stamp
    return read_source(path)


def _stamp(path: Path) -> tuple[int, int]:
    """Return a stamp that changes when the file is written."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


class Project:
    """Resolve imports around one file, and in `folders` of installed packages; torch is never opened."""

    def __init__(
        self, source: Source, *, explains: bool = False, folders: tuple[Path, ...] = (), until: float = math.inf
    ) -> None:
        self.until = until  # when reading has to end, by `time.monotonic`
        self._packages = folders
        self._opened = 0
        self.beyond: set[str] = set()  # packages of which more would have to be read than the bound allows
        self.explains = explains  # what findings rest on is kept
        self._known: dict[Path, Module] = {}
        self.guessed: dict[ast.AST, Instance] = {}  # objects made up for classes that nobody makes one of
        self.no_tensors: set[ast.arg] = set()  # arguments that were taken for GPU tensors and that numpy gets
        path = Path(source.path)
        self._here = None if path.is_absolute() else Path.cwd()  # imported files are named as the file itself is
        self.main = Module(path.stem, path, source.path, source)
        self._roots: list[Path] = []
        self._own = ""  # the only package that is opened, where the file lies among installed ones
        if path.is_file():
            path = path.resolve()
            self._known[path] = self.main
            self._place(path)

    def _place(self, path: Path) -> None:
        """Find the folders from which absolute imports of this file start, and the file's own dotted name."""
        top = path.parent
        while (top / "__init__.py").is_file() and top.parent != top:
            top = top.parent
        parts = path.relative_to(top).with_suffix("").parts
        self.main.name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        self._own = parts[0] if top.name in packages.FOLDERS else ""
        self._roots = [top]
        if not self._own:
            above = [folder for folder in (top, *top.parents[:4]) if any((folder / mark).exists() for mark in _MARKERS)]
            self._roots += [root for folder in above[:1] for root in (folder, folder / "src") if root != top]

    def restart(self) -> None:
        """Forget what running the file itself has made; the modules that it imports stay as they are."""
        self.main.scope, self.main.started = Scope(0), False
        self.guessed.clear()

    def sources(self) -> dict[str, Source]:
        """Return the files opened so far, by the path that findings in them have."""
        return {module.path: module.source for module in (self.main, *self._known.values()) if module.source is not None}

    def installed(self, path: str) -> str | None:
        """Return where a file stands in the folder of installed packages that has it; None for a file of the user's."""
        module = next((module for module in self._known.values() if module.installed and module.path == path), None)
        if module is None:
            return None
        place = module.place
        return next((str(place.relative_to(root)) for root in self._packages if place.is_relative_to(root)), str(place))

    def modules(self) -> list[Module]:
        """Return the modules met so far."""
        return [self.main, *self._known.values()]

    def find(self, name: str, importer: Module, level: int = 0) -> Module | None:
        """Return the module that `from <dots><name> import …` in `importer` names; None for an installed package."""
        if level:
            package = importer.name.split(".")
            is_package = Path(importer.path).name == "__init__.py"
            base = package[: len(package) - level + is_package]
            name = ".".join([*base, name] if name else base)
        top = name.split(".")[0]
        # The repository of a library that the check knows has tests and examples that import it.
        known = top in _KNOWN and importer.name.split(".")[0] != top
        if not name or known or (self._own and top != self._own):
            return None
        for root in self._roots:
            place = root.joinpath(*name.split("."))
            for path in (place.with_suffix(".py"), place / "__init__.py"):
                if path in self._known or path.is_file():
                    return self._load(path, name)
        return self._installed(name) if packages.is_opened(name) else None

    def _installed(self, name: str) -> Module | None:
        """Return a module of an installed package, while not too many were opened."""
        for root in self._packages:
            place = root.joinpath(*name.split("."))
            found = next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
            if found is not None:
                return self._open(found, name)
        return None

    def missing(self) -> list[str]:
        """Return packages that the file imports, that may be read, and whose code is not here."""
        tops: list[str] = []
        for node in ast.walk(self.main.tree):
            if isinstance(node, ast.Import):
                tops += [alias.name for alias in node.names if self.find(alias.name, self.main) is None]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                tops += [node.module] if self.find(node.module, self.main) is None else []
        return [name for name in dict.fromkeys(top.partition(".")[0] for top in tops) if packages.is_opened(name)]

    def _open(self, path: Path, name: str) -> Module:
        if path not in self._known:
            self._load(path, name).installed = True
        return self._known[path]

    def admits(self, module: Module) -> bool:
        """Return whether a module may be run: of installed packages a limited number."""
        if module.installed and self._opened >= _OPENED:
            self.beyond.add(module.name.split(".")[0])
            return False
        self._opened += module.installed
        return True

    def defining(self, module: Module, name: str) -> Module | None:
        """Return the module of an installed package that defines a name that `module` exports by code only."""
        if not module.installed or Path(module.path).name != "__init__.py" or not name.isidentifier():
            return None
        package = Path(module.path).parent
        try:
            path = packages.defining(package, name)
        except packages.TooMany:
            self.beyond.add(module.name.split(".")[0])
            return None
        if path is None:
            return None
        parts = path.relative_to(package).with_suffix("").parts
        return self._open(path, ".".join([module.name, *parts[: len(parts) - (parts[-1] == "__init__")]]))

    def _load(self, path: Path, name: str) -> Module:
        if path not in self._known:
            near = self._here is not None and path.is_relative_to(self._here)
            self._known[path] = Module(name, path, str(path.relative_to(self._here) if near and self._here else path))
        return self._known[path]
