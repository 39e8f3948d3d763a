"""Find installed packages without running the interpreter that has them, and the file in one that defines a name."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from itertools import islice
from pathlib import Path

from cudagraph_skill.check.input.source import file_bytes
from cudagraph_skill.errors import SkillError

# What the check knows itself, or what holds no models
_NOT_OPENED = {"torch", "numpy", "tensordict", "triton", "functorch", "torchgen", "scipy", "pandas", "setuptools", "pip"}
_FILES = 4000  # of one package that are searched for a name
FOLDERS = ("site-packages", "dist-packages")  # that installers write to


def folders(python: str) -> tuple[Path, ...]:
    """Return where the packages of an interpreter lie, which is found beside it.

    Raises:
        SkillError: there is no such interpreter, or no such folder.
    """
    path = Path(python)
    if not path.is_file():
        raise SkillError(f"{python}: there is no such interpreter; name the Python of an environment", 3)
    if not path.name.startswith(("python", "pypy")):
        raise SkillError(f"{python}: this is no Python interpreter; name the Python of an environment", 3)
    prefix = path.absolute().parent.parent  # a link is kept: it tells a virtual environment
    places = [place for name in FOLDERS for place in sorted(prefix.glob(f"lib*/python3*/{name}"), reverse=True)]
    if not places:
        beside = f"{prefix}/lib/python3.*/site-packages"
        raise SkillError(f"{python}: there is no {beside} to read: name the Python of an environment", 3)
    return tuple(places)


def is_opened(name: str) -> bool:
    """Return whether a module of this name is read where it is installed."""
    return name.split(".", maxsplit=1)[0] not in _NOT_OPENED


class TooMany(Exception):  # noqa: N818 - a signal, not an error
    """A package has more files than are searched."""


def defining(package: Path, name: str) -> Path | None:
    """Return the file of a package that defines a class or function of a name; its `__init__` may export it by code only.

    Raises:
        TooMany: none of those that were searched does, and there are more.
    """
    try:
        stamp = package.stat().st_mtime_ns
    except OSError:
        return None
    return _defining(package, name, stamp)


@lru_cache(maxsize=1000)
def _defining(package: Path, name: str, stamp: int) -> Path | None:
    del stamp  # the answer is for the package as it was then
    definition = re.compile(rb"^(?:class|def) " + name.encode() + rb"\b", re.MULTILINE)
    files = (Path(folder, file) for folder, _, found in os.walk(package) for file in sorted(found) if file.endswith(".py"))
    for path in islice(files, _FILES):
        try:
            data = file_bytes(str(path))
        except OSError:
            continue
        if definition.search(data):
            return path
    if next(files, None) is not None:
        raise TooMany
    return None
