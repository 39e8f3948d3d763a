"""The token that clients over HTTP show: from a file that its owner alone can read, from the environment, or made here."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from typing import TYPE_CHECKING

from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "CUDAGRAPH_SKILL_TOKEN"
_LEAST = 16  # characters
_MOST = 4096
_TOKEN = re.compile(r"[!-~]+")  # what a header can carry


def chosen(file: Path | None) -> tuple[str, str]:
    """Return the token, "" for none, and where it was taken from; one that is in the environment is removed there.

    A file that is not there is made, with a new token.

    Raises:
        SkillError: the file cannot be read or made, others can read it, or what it has is no token.
    """
    given = os.environ.pop(VARIABLE, "")
    if file is not None:
        return _checked(_read(file), str(file)), str(file)
    return (_checked(given, VARIABLE), VARIABLE) if given else ("", "")


def _checked(text: str, place: str) -> str:
    token = text.strip()
    if not _LEAST <= len(token) <= _MOST or not _TOKEN.fullmatch(token):
        raise SkillError(
            f"{place} has no token: it takes {_LEAST} or more letters, digits or signs without spaces; "
            "`--token-file` with a file that is not there makes one"
        )
    return token


def _read(file: Path) -> str:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return _made(file)
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else str(error.strerror)
        raise SkillError(f"--token-file {file} cannot be read: {why}; name another file") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise SkillError(f"--token-file {file} is no file: name a file, or one that is not there, which is then made")
    with os.fdopen(handle, "rb") as opened:
        if status.st_uid != os.getuid():
            raise SkillError(f"--token-file {file} belongs to another user: name a file of your own")
        if status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise SkillError(f"--token-file {file} is open to others (mode {mode:04o}): run `chmod 600 {file}`")
        return opened.read(_MOST + 2).decode("utf-8", "replace")


def _made(file: Path) -> str:
    """Write a new token to a new file that its owner alone can read."""
    token = secrets.token_urlsafe(32)
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(f"{token}\n")
    except OSError as error:
        raise SkillError(f"--token-file {file} cannot be made: {error.strerror}; name a file in a folder of your own") from None
    print_once(f"made a token in {file}: {token}")
    return token


def print_once(sentence: str) -> None:
    """Tell the person who started the server; standard output may be the protocol's."""
    os.write(2, f"skill serve: {sentence}\n".encode())
