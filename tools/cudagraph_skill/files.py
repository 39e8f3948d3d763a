"""Write a file for the user, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.text import operand

if TYPE_CHECKING:
    from collections.abc import Callable


def target(file: str, obstacle: Callable[[Path], str]) -> tuple[Path, str]:
    """Return the file that a name leads to, links followed, and why it cannot be written, by `obstacle`; "" if it can."""
    path = Path(file)
    try:
        return Path(os.path.realpath(path)), obstacle(path)
    except (OSError, ValueError) as error:  # a name that is too long or contains NUL
        return path, f"{getattr(error, 'strerror', None) or error}; name another file"


def occupied(path: Path, force: bool) -> str:
    """Return why the folder or an existing file prevents writing; "" if neither does."""
    if not path.parent.is_dir():
        if os.path.lexists(path.parent):
            return f"{path.parent} is no folder; name one that is"
        return f"there is no folder {path.parent}: make it first, `mkdir -p {operand(str(path.parent))}`"
    if os.path.lexists(path) and not force:
        return "it is there already, and stays as it is: name another file, or add `--force` to replace it"
    if path.exists() and not path.is_file():
        return "that is no file that could be replaced; name another"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return "it is write-protected; name a file that you may write"
    return ""


def save(content: str | bytes, path: Path, force: bool = False) -> None:
    """Write a file, whole or not at all; one that is there is replaced with `force` only.

    Raises:
        FileExistsError: it is there.
        OSError: it cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".skill.", suffix=path.suffix)
    try:
        with os.fdopen(handle, "wb") as new:
            new.write(content.encode() if isinstance(content, str) else content)
            new.flush()  # a full disk shows here, before the file is created
            path.touch(exist_ok=force)  # so that one which came meanwhile is seen, and a new one has the usual rights
            os.fchmod(new.fileno(), path.stat().st_mode & 0o7777)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
