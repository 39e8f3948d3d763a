"""Keep what is slow to make in the user's cache folder: private, whole, and made by one process at a time.

Whoosh unpickles its index, and a pickle can run code. So nothing is read from a folder that someone else could have filled:
the cache folder must be the user's own, writable by nobody else and outside of checkouts (a repository could bring an index
with it), and what is kept in it is readable by the user alone. Where that is not so, nothing is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BUILDING = ".building-"
_ABANDONED_SECONDS = 3600
_WAIT_SECONDS = 30.0
_KEPT = 8  # of each kind, for checkouts and versions that take turns
_OURS = re.compile(r"(?:index-|errors-)?\d+-(?:[a-z]+-)?[0-9a-f]{20}(?:\.json)?")
_SIZES = "sizes"


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
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(0, "the cache folder is a link or a file", str(path))
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(0, "the cache folder belongs to another user or others can write to it", str(path))
    return path


def _is_checkout(path: Path) -> bool:
    """Return whether a folder is a repository; a home folder that is one holds the user's own settings."""
    return (path / ".git").exists() and path != Path(os.path.expanduser("~"))  # noqa: PTH111 - see paths.cache_dir


@contextlib.contextmanager
def lock(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a folder for this thread alone; a process that dies lets go of it.

    Raises:
        TimeoutError: another process did not let go of it in time.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _wait(handle, path, say)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, path: Path, say: Callable[[str], None]) -> None:
    start = time.monotonic()
    told = False
    while time.monotonic() - start < _WAIT_SECONDS:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                say("another process is building the search index: waiting for it")
                told = True
            time.sleep(0.05)
        except OSError:  # a file system without locks: two processes may do the same work
            return
        else:
            return
    raise TimeoutError(0, "another process is using the cache folder", str(path))


def is_whole(path: Path) -> bool:
    """Return whether a folder is private, and no file of it is missing, damaged in size or open to others."""
    try:
        listed = dict(line.rsplit(" ", 1) for line in (read(path / _SIZES) or b"").decode().splitlines())
        return _is_private(os.lstat(path), stat.S_ISDIR) and bool(listed) and all(_has(path, *item) for item in listed.items())
    except (OSError, ValueError):
        return False


def _has(path: Path, name: str, size: str) -> bool:
    found = os.lstat(path / name)
    return _is_private(found, stat.S_ISREG) and found.st_size == int(size) and "/" not in name


def _is_private(found: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def build(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder, list its files, and rename it to `path`, so that nobody sees half of it.

    Raises:
        OSError: there is no room, or no right to write.
    """
    building = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=path.parent))
    try:
        write(building)
        for file in building.iterdir():
            file.chmod(0o600)
        sizes = "".join(f"{file.name} {file.stat().st_size}\n" for file in sorted(building.iterdir()))
        keep(building / _SIZES, sizes.encode())
        shutil.rmtree(path, ignore_errors=True)
        building.rename(path)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    _sweep(path)


def read(path: Path) -> bytes | None:
    """Return what is kept in a private file, or None."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if _is_private(os.fstat(handle), stat.S_ISREG):
                return file.read()
    return None


def keep(path: Path, data: bytes) -> None:
    """Write a private file beside its name, then rename it.

    Raises:
        OSError: there is no room, or no right to write.
    """
    handle, name = tempfile.mkstemp(prefix=_BUILDING, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    _sweep(path)


def _sweep(newest: Path) -> None:
    """Remove what killed processes left behind, and all but the last few of the kind of `newest`, older formats included."""
    kept: list[tuple[float, Path]] = []
    for path in newest.parent.iterdir():
        with contextlib.suppress(OSError):
            modified = os.lstat(path).st_mtime
            if path.name.startswith(_BUILDING) and time.time() - modified > _ABANDONED_SECONDS:
                _remove(path)
            elif _OURS.fullmatch(path.name) and _is_errors(path) == _is_errors(newest) and path != newest:
                kept.append((modified, path))
    for _, path in sorted(kept, reverse=True)[_KEPT - 1 :]:
        _remove(path)


def _is_errors(path: Path) -> bool:
    return path.name.startswith("errors-")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
