"""Which files a tool may read: regular ones, of a bounded size, and inside the allowed folders where there are such."""

from __future__ import annotations

import errno
import os
import stat
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudagraph_skill.errors import SkillError
from cudagraph_skill.paths import skill_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LARGEST = 64 << 20  # bytes of a file that is opened; what reads it may take less
_OF_THE_KERNEL = ("/proc", "/sys", "/dev")  # regular files there hold no source, but environments and memory
_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "os.forkpty", "pty.spawn")
_LISTS = ("os.listdir", "os.scandir")


def readable(folders: Sequence[Path]) -> list[str]:
    """Return the folders without links.

    Raises:
        SkillError: one is not there.
    """
    for folder in folders:
        if not folder.is_dir():
            raise SkillError(f"{folder}: there is no such folder to read or run code in; name one that is there")
    return list(dict.fromkeys(os.path.realpath(folder) for folder in folders))


def placed(target: str, roots: Sequence[str] | None) -> str:
    """Return what a path, or `FILE:FUNCTION`, means: as it stands, else below one of the `roots`; without roots, itself.

    Whether a file outside of the roots exists is not told.

    Raises:
        SkillError: it lies outside of the roots, links followed, or nothing can have such a name.
    """
    if "\0" in target:
        raise SkillError("path has a NUL in it, which no name of a file has: name another file")
    if target == "-":
        raise SkillError("`-` is standard input, which a server does not have: pass the text itself")
    if roots is None:
        return target
    candidates = [target, *(os.path.join(root, target) for root in roots)]  # noqa: PTH118 - strings, as the reports have them
    inside = [candidate for candidate in candidates if _is_inside(candidate, roots)]
    if not inside:
        where = ", ".join(roots) or "no folder"
        raise SkillError(
            f"{target[:300]} may not be read: this server reads files in {where} (`skill serve --read FOLDER` adds one); "
            "or pass the text itself"
        )
    return next((candidate for candidate in inside if any(map(os.path.lexists, _prefixes(candidate)))), inside[0])


def regular(path: str) -> str:
    """Return a path that has a regular file, a folder, or nothing.

    Raises:
        SkillError: it is a pipe, a socket or a device, which may make its reader wait for ever.
    """
    try:
        kind = os.stat(path).st_mode  # noqa: PTH116 - a string
    except (OSError, ValueError):
        return path
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise SkillError(f"{path} is a pipe, a socket or a device, not a file: name a file")
    return path


def _is_inside(target: str, roots: Sequence[str]) -> bool:
    """Return whether each file that a target may mean lies in one of the roots."""
    return all(within(prefix, roots) for prefix in _prefixes(target) if prefix)


def _prefixes(target: str) -> Iterator[str]:
    """Yield the target, and what is left of it without each part that follows a colon."""
    yield target
    while (colon := target.rfind(":")) > 0:
        target = target[:colon]
        yield target


def within(path: str, roots: Sequence[str]) -> bool:
    """Return whether a path lies in one of the folders, or is one, links followed."""
    real = os.path.join(os.path.realpath(path), "")  # noqa: PTH118 - both end in a slash
    return any(real.startswith(os.path.join(root, "")) for root in roots)  # noqa: PTH118


def own_folders() -> list[str]:
    """Return where this Python and this package lie: modules that are imported late, and references, come from there."""
    beside = [Path(sys.modules[name].__file__ or "").parents[1] for name in ("cudagraph_skill", __package__ or "")]
    places = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    ours = map(str, (*beside, skill_root() / "references", skill_root() / "questions"))
    return [os.path.realpath(place) for place in (*places, *ours)]


def confine(roots: Sequence[str] | None) -> None:
    """Let this process, for the rest of its life, open regular files of a bounded size for reading, in the roots if given.

    Reads outside fail with OSError, as do writes; with roots, no program is started. This is for a process that reads what a
    client named: what its code opens on the way, such as the modules that a file imports, is held by the same rule.
    """
    allowed = None if roots is None else [*roots, *own_folders()]
    sys.dont_write_bytecode = True
    sys.addaudithook(_hook(allowed))


def _hook(allowed: Sequence[str] | None) -> Callable[[str, tuple[Any, ...]], None]:
    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            _refuse_unfit(path, mode, flags, allowed)
        elif event in _LISTS and allowed is not None and not within(_text(arguments[0] or "."), allowed):
            raise PermissionError(errno.EPERM, "it lies outside of the folders that this server reads", _text(arguments[0]))
        elif event in _STARTS and allowed is not None:
            raise PermissionError(errno.EPERM, "this process starts no other")

    return look


def _refuse_unfit(path: Any, mode: str | None, flags: int, allowed: Sequence[str] | None) -> None:
    """Check that a file may be opened.

    Raises:
        OSError: it may not.
    """
    if isinstance(path, int):  # a descriptor that is open already
        return
    name = _text(path)
    if (mode is not None and set(mode) & set("wax+")) or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
        if name == os.devnull or allowed is None:
            return
        raise PermissionError(errno.EPERM, "this process writes no file", name)
    if name == os.devnull:
        return
    if allowed is not None and not within(name, allowed):
        raise PermissionError(errno.EPERM, "it lies outside of the folders that this server reads", name)
    if within(name, _OF_THE_KERNEL):
        raise PermissionError(errno.EPERM, "it is a file of the kernel, not of a disk", name)
    try:
        status = os.stat(name)  # noqa: PTH116 - a string
    except (OSError, ValueError):
        return  # opening it says why not
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, not a file", name)
    if stat.S_ISREG(status.st_mode) and status.st_size > LARGEST:
        raise OSError(errno.EFBIG, f"it is larger than {LARGEST >> 20} MB", name)


def _text(path: Any) -> str:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
