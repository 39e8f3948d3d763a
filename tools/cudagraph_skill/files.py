"""Write a file for the user, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def occupied(path: Path, force: bool) -> str:
    """Return why the existing file or its folder prevents writing; "" if neither does."""
    if os.path.lexists(path) and not force:
        return "it is there already, and stays as it is: name another file, or add `--force` to replace it"
    if path.exists() and not path.is_file():
        return "that is no file that could be replaced; name another"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return "it is write-protected; name a file that you may write"
    return ""


def save(text: str, path: Path, force: bool = False) -> None:
    """Write a file, whole or not at all; one that is there is replaced with `force` only.

    Raises:
        FileExistsError: it is there.
        OSError: it cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".skill.", suffix=path.suffix)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as new:
            new.write(text)
            new.flush()  # a full disk shows here, before the file is created
            path.touch(exist_ok=force)  # so that one which came meanwhile is seen, and a new one has the usual rights
            os.fchmod(new.fileno(), path.stat().st_mode & 0o7777)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
