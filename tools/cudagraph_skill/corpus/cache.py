"""Read what `building` keeps in the user's cache folder, where nobody else could have put it there.

Whoosh unpickles its index, and a pickle can run code. So nothing is read from a folder that someone else could have filled:
the cache folder must be the user's own, writable by nobody else and outside of checkouts (a repository could bring an index
with it), and what is kept in it is readable by the user alone. Where that is not so, nothing is kept.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = "sizes"  # the file of a kept folder that lists the others


def folder() -> Path:
    """Return the cache folder, made if it does not exist.

    Raises:
        OSError: it cannot be made, or others could have put something into it.
    """
    path = cache_dir()
    if not path.is_absolute():
        raise PermissionError(0, "the path of the cache folder is not absolute", str(path))
    if checkout := next((str(parent) for parent in path.parents if _is_checkout(parent)), ""):
        raise PermissionError(0, "the cache folder is inside a checkout", checkout)
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(0, "the cache folder is a link or a file", str(path))
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(0, "the cache folder belongs to another user or others can write to it", str(path))
    return path


def _is_checkout(path: Path) -> bool:
    """Return whether a folder is a repository; a home folder that is one holds the user's own settings."""
    return (path / ".git").exists() and path != Path(os.path.expanduser("~"))  # noqa: PTH111 - see paths.cache_dir


def is_whole(path: Path) -> bool:
    """Return whether a folder is private, and no file of it is missing, damaged in size or open to others."""
    try:
        listed = dict(line.rsplit(" ", 1) for line in (read(path / SIZES) or b"").decode().splitlines())
        return _is_private(os.lstat(path), stat.S_ISDIR) and bool(listed) and all(_has(path, *item) for item in listed.items())
    except (OSError, ValueError):
        return False


def _has(path: Path, name: str, size: str) -> bool:
    status = os.lstat(path / name)
    return _is_private(status, stat.S_ISREG) and status.st_size == int(size) and "/" not in name


def _is_private(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def read(path: Path) -> bytes | None:
    """Return what is kept in a private file, or None."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if _is_private(os.fstat(handle), stat.S_ISREG):
                return file.read()
    return None
