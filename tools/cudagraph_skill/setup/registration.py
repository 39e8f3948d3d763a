"""Add the server to a client's configuration, or take it out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill import files
from cudagraph_skill.errors import SkillError
from cudagraph_skill.setup import entry, receipts
from cudagraph_skill.setup.clients import NAME, Client
from cudagraph_skill.setup.entry import Piece, Table
from cudagraph_skill.setup.jsonc import BrokenError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REFUSED = 1
_MARK = "\ufeff"


class Change(NamedTuple):
    """Hold what becomes of a configuration: None is no file, and equal bytes are nothing to do.

    Attributes:
        note: What is to be said where there is nothing to do.
        kept: The receipt of it, empty where the entry is taken out.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    note: str
    kept: dict[str, Any]


def table(client: Client) -> Table:
    """Return where the server stands in a client's configuration."""
    return Table(client.format, client.key, NAME)


def wanted(client: Client, command: Sequence[str]) -> dict[str, Any]:
    """Return the entry that a client needs to start a command."""
    fixed = dict(client.fixed)
    return {
        **({"type": fixed.pop("type")} if "type" in fixed else {}),
        "command": command[0],
        "args": list(command[1:]),
        **fixed,
    }


def registered(client: Client, path: Path, new: Mapping[str, Any]) -> Change:
    """Return the change that gives a configuration the entry; an entry of an earlier call is replaced.

    Raises:
        SkillError: The file cannot be changed safely; it says what to add by hand (exit code 1, or 3 if it is not writable).
    """
    by_hand = f"add this by hand:\n{entry.snippet(table(client), new)}"
    before = _content(path, by_hand)
    kept = receipts.read(path)
    try:
        mark, text = _text(before)
        old = entry.found(text, table(client))
        if old == new:
            return Change(path, before, before, f"{path} has the server already", kept)
        if old is not None:
            if old != kept.get("entry"):
                raise SkillError(
                    f"{path} has a server named {NAME} with other content, which stays as it is: remove it first, or {by_hand}",
                    REFUSED,
                )
            text = _taken_out(text, client, kept)
        made = entry.pieces(text, table(client), new)
    except BrokenError as error:
        raise SkillError(
            f"{path} cannot be changed safely ({error}): nothing is written, correct it, or {by_hand}", REFUSED
        ) from None
    if before is None:
        kept = {"new": True, "folders": [str(folder) for folder in _missing(path)]}
    note = {"new": kept.get("new", False), "folders": kept.get("folders", []), "entry": dict(new), "pieces": made}
    return Change(path, before, _bytes(mark, entry.inserted(text, made)), "", note)


def unregistered(client: Client, path: Path, known: Mapping[str, Any] | None) -> Change:
    """Return the change that takes the entry out: one that this command wrote, by its receipt or as `known`.

    Raises:
        SkillError: The entry was changed since, or the file cannot be changed (exit code 1, or 3 where it cannot be written).
    """
    by_hand = f"take `{client.key}.{NAME}` out by hand"
    before = _content(path, by_hand)
    kept = receipts.read(path)
    try:
        mark, text = _text(before)
        old = entry.found(text, table(client))
        if old is None:
            return Change(path, before, before, f"{path} has no server named {NAME}: there is nothing to undo", {})
        if old != (kept.get("entry") or known):
            why = "was changed since" if kept else "was not written by `skill install`"
            raise SkillError(f"the server {NAME} in {path} {why}, so it stays: {by_hand}", REFUSED)
        after = _taken_out(text, client, kept)
    except BrokenError as error:
        raise SkillError(f"{path} cannot be changed safely ({error}): nothing is written, {by_hand}", REFUSED) from None
    gone = bool(kept.get("new")) and not after and not mark
    return Change(path, before, None if gone else _bytes(mark, after), "", {"folders": kept.get("folders", [])} if gone else {})


def write(change: Change) -> None:
    """Replace, make or delete the file, unless it changed since it was read.

    Raises:
        SkillError: It changed, or cannot be written.
    """
    path = change.path
    try:
        if (path.read_bytes() if path.exists() else None) != change.before:
            raise SkillError(f"{path} changed while it was read, and stays as it is: run the command again", REFUSED)
        if change.after is None:
            path.unlink()
            remove_empty(change.kept.get("folders", ()))
        else:
            if "entry" in change.kept:
                receipts.write(path, change.kept)
            path.parent.mkdir(parents=True, exist_ok=True)
            files.save(change.after, path, force=True)
        if "entry" not in change.kept:
            receipts.remove(path)
    except OSError as error:
        raise SkillError(f"{error.filename or path}: {error.strerror}: nothing is written", 3) from None


def remove_empty(folders: Sequence[str]) -> None:
    """Remove folders that were made for a file, innermost first, while they are empty."""
    for folder in folders:
        try:
            Path(folder).rmdir()
        except OSError:  # something else is in it by now
            return


def _missing(path: Path) -> list[Path]:
    """Return the folders above a path that do not exist, innermost first."""
    return [folder for folder in path.parents if not folder.exists()]


def _content(path: Path, by_hand: str) -> bytes | None:
    """Return the bytes of a configuration that may be replaced, or None where there is none."""
    why, code = "", REFUSED
    if path.is_symlink():
        why = f"it is a link to {os.path.realpath(path)}"
    elif path.exists() and not path.is_file():
        why = "it is no file"
    elif path.exists() and path.stat().st_nlink > 1:
        why = "it has another name, a hard link"
    else:
        place = path if path.exists() else next(folder for folder in path.parents if folder.exists())
        if not place.is_dir() and place != path:
            why = f"{place} is no folder"
        elif closed := next((each for each in (place, path.parent) if each.exists() and not _is_writable(each)), None):
            why, code = f"{'it' if closed == path else closed} is write-protected", 3
    if not why:
        try:
            return path.read_bytes() if path.exists() else None
        except OSError as error:
            why, code = str(error.strerror), 3
    raise SkillError(f"{path} stays as it is, {why}: change that, or {by_hand}", code)


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and bool(path.stat().st_mode & 0o222)


def _text(data: bytes | None) -> tuple[str, str]:
    """Return the byte order mark and the text of a configuration."""
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError:
        raise BrokenError("it is not UTF-8") from None
    return (_MARK, text[1:]) if text.startswith(_MARK) else ("", text)


def _bytes(mark: str, text: str) -> bytes:
    try:
        return (mark + text).encode()
    except UnicodeEncodeError:
        raise SkillError("a path in the command is not UTF-8, so a configuration cannot name it: move it", REFUSED) from None


def _taken_out(text: str, client: Client, kept: Mapping[str, Any]) -> str:
    """Return the text without the entry: as it was before, where the rest is unchanged."""
    made = [Piece(*piece) for piece in kept.get("pieces", ())]
    exact = entry.taken_out(text, made) if made else None
    if exact is not None:
        try:
            if entry.found(exact, table(client)) is None:
                return exact
        except BrokenError:
            pass
    return entry.without(text, table(client), made)
