"""Build what is slow to make once, and keep it in the user's cache folder: one process at a time, whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.corpus.cache import SIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BUILDING = ".building-"
_ABANDONED_SECONDS = 3600
_WAIT_SECONDS = 30.0
_KEPT = 8  # of each kind, for checkouts and versions that take turns
_OURS = re.compile(r"(?:index-|errors-)?\d+-(?:[a-z]+-)?[0-9a-f]{20}(?:\.json)?")


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
        keep(building / SIZES, sizes.encode())
        shutil.rmtree(path, ignore_errors=True)
        building.rename(path)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    _sweep(path)


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
