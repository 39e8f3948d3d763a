"""Keep the installed packages that a request imported for the next one: the fork server imports them, too, while it waits.

Importing transformers takes longer than most checks. A package is imported into the fork server only if the process that
imported it for a request could still be forked, so had neither initialised CUDA nor started threads. Modules of the user's own
are imported anew for each request.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING

from cudagraph_skill.capture.guest import stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST = 20_000  # modules


def installed(before: Iterable[str]) -> list[str]:
    """Return the modules of installed packages that were imported since `before`, in the order of their import."""
    known = set(before)
    return [name for name in list(sys.modules) if name not in known and _is_installed(name)][:_MOST]


def _is_installed(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    path = getattr(module, "__file__", None) or ""
    return spec is not None and spec.name == name and isinstance(path, str) and _in_packages(path)


def _in_packages(path: str) -> bool:
    return stack.rank(path if path.endswith(".py") else f"{path}.py") == 1


def warm(names: Iterable[str]) -> None:
    """Import modules in silence; those that cannot be imported are left out."""
    importlib.invalidate_caches()
    with _silence():
        for name in names:
            with contextlib.suppress(Exception, SystemExit):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


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
