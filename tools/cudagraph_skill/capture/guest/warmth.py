"""Keep the installed packages that a request imported for the next one: a fork of the server imports them, and takes its place.

Importing transformers takes longer than most checks. Only what had not opened the GPU in the process of the request is imported
again. Numerical libraries are loaded with one thread, because threads do not live on in a fork; where others start some, the
server stays as it was. Modules of the user's own are imported anew for each request.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.guest import stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST = 20_000  # modules
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Imports:
    """What is imported, and the environment that packages see when they are: taken before a user's module is imported."""

    def __init__(self) -> None:
        self._modules, self._environment = set(sys.modules), dict(os.environ)

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
    return spec is not None and spec.name == name and isinstance(path, str) and _in_packages(path)


def _in_packages(path: str) -> bool:
    return stack.rank(path if path.endswith(".py") else f"{path}.py") == 1


def warm(names: Iterable[str], changes: dict[str, Any]) -> bool:
    """Import modules in silence; return whether that went as in the request, where they came with these changes.

    If not, the user's module had a hand in it: it set a variable before its imports, say.
    """
    imports = Imports()
    importlib.invalidate_caches()
    with _silence(), _one_thread():
        try:
            for name in names:
                importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - a package may raise anything, or end the process
            return False
    gc.collect()
    gc.freeze()
    return imports.changes() == changes


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
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
