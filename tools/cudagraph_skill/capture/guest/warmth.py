"""Import installed packages once for many requests: a fork of the server imports them, and takes its place.

Importing transformers takes longer than most checks. The fork runs the imports with which a user's file begins before that
request is answered; what the file imports later is imported for the next one, if it did not open the GPU. Numerical libraries
are loaded with one thread, because threads do not live on in a fork; where others start some, the server stays as it was.
Modules of the user's own are imported anew for each request.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture.guest import stack

if TYPE_CHECKING:
    import types
    from collections.abc import Iterable, Iterator

_MOST = 20_000  # modules
_OWN = 2  # rank of a module of the user's
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Imports:
    """What is imported, and the environment that packages see when they are: taken before a user's module is imported."""

    def __init__(self) -> None:
        self._modules, self._environment = set(sys.modules), dict(os.environ)

    def outermost(self) -> set[str]:
        """Return the outermost packages of all modules that were imported since then."""
        return {name.partition(".")[0] for name in list(sys.modules) if name not in self._modules}

    def installed(self) -> list[str]:
        """Return the modules of installed packages that were imported since then, in the order of their import."""
        return [name for name in list(sys.modules) if name not in self._modules and _is_installed(name)][:_MOST]

    def changes(self) -> dict[str, Any]:
        """Return what else changed since then that packages see at their import: variables, and modules that are hidden."""
        changed = {name: value for name, value in os.environ.items() if self._environment.get(name) != value}
        gone = {name: None for name in self._environment if name not in os.environ}
        modules: dict[str, Any] = dict(sys.modules)
        hidden = [name for name, module in modules.items() if module is None and name not in self._modules]
        return {"environment": {**changed, **gone}, "hidden": sorted(hidden)}


def _is_installed(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    path = getattr(module, "__file__", None) or ""
    return spec is not None and spec.name == name and isinstance(path, str) and _rank(path) == 1


def _rank(path: str) -> int:
    return stack.rank(path if path.endswith(".py") else f"{path}.py") if path else _OWN


class Import(NamedTuple):
    """One import statement of a user's file, and the installed packages that it imports."""

    code: types.CodeType
    packages: frozenset[str]

    def run(self) -> bool:
        """Import; return whether that went well."""
        try:
            exec(self.code, {"__name__": "__main__"})  # noqa: S102 - the request would run this line of the user's next
        except BaseException:  # noqa: BLE001 - a package may raise anything, or end the process
            return False
        return True


def first(request: dict[str, Any], refused: set[str]) -> list[Import]:
    """Return the imports that a request wants to be warm, and those with which its file begins."""
    wanted = [name for name in request.get("imports", ()) if name not in sys.modules and name not in refused]
    named = [Import(compile(f"import {name}", "<request>", "exec"), frozenset({name})) for name in wanted]
    return [*named, *beginning(request.get("file", ""), refused)]


def beginning(path: str, refused: set[str]) -> list[Import]:
    """Return the imports with which a file begins; [] if they import nothing new.

    The first other statement ends them, and so do a module of the user's own and a refused package. A file of a package is left
    out: that package is imported before it.
    """
    folder = os.path.dirname(path)
    if not path or os.path.exists(os.path.join(folder, "__init__.py")):
        return []
    try:
        with open(path, "rb") as file:
            body = ast.parse(file.read(), path).body
    except (OSError, SyntaxError, ValueError):
        return []
    imports: list[Import] = []
    for statement in body[1:] if ast.get_docstring(ast.Module(body[:1], [])) is not None else body:
        names = _imported(statement)
        if not names or names & refused or not all(_is_elsewhere(name, folder) for name in names):
            break
        imports.append(Import(compile(ast.Module([statement], []), path, "exec"), frozenset(names - sys.stdlib_module_names)))
    return imports if any(name not in sys.modules for each in imports for name in each.packages) else []


def _imported(statement: ast.stmt) -> set[str]:
    """Return the outermost packages that a statement imports; none if it is no import, or a relative one."""
    if isinstance(statement, ast.ImportFrom):
        return set() if statement.level else {str(statement.module).partition(".")[0]}
    return {alias.name.partition(".")[0] for alias in statement.names} if isinstance(statement, ast.Import) else set()


def _is_elsewhere(name: str, folder: str) -> bool:
    """Return whether a name is one of the standard library or of an installed package, and not of the user's folder."""
    if name in sys.stdlib_module_names:
        return True
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        found = find_spec(name)
        return not has(folder, name) and found is not None and _rank(found.origin or "") < _OWN
    return False


def has(folder: str, name: str) -> bool:
    """Return whether a folder has a module or a package of this name."""
    return any(os.path.exists(os.path.join(folder, file)) for file in (f"{name}.py", os.path.join(name, "__init__.py")))


def warm(names: Iterable[str], changes: dict[str, Any]) -> bool:
    """Import modules in silence; return whether that went as in the request, where they came with these changes.

    If not, the user's module had a hand in it: it set a variable before its imports, say.
    """
    imports = Imports()
    importlib.invalidate_caches()
    with _silence(), one_thread():
        try:
            for name in names:
                importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - a package may raise anything, or end the process
            return False
    settle()
    return imports.changes() == changes


def settle() -> None:
    """Do once what each fork would do with what was imported: find out whose it is, and visit it in collections of garbage."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str):
            _rank(path)
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let numerical libraries that are imported meanwhile start no threads."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Send what imports print to nowhere: it was printed once, for the request."""
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for fd in (1, 2):
            os.dup2(nowhere, fd)
        yield
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        for fd, before in zip((1, 2), kept, strict=True):
            os.dup2(before, fd)
        for fd in (*kept, nowhere):
            os.close(fd)
