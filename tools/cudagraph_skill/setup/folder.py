"""Copy the skill's own files into a client's folder of skills, or take the copy away."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from cudagraph_skill.errors import SkillError
from cudagraph_skill.paths import skill_root
from cudagraph_skill.setup import receipts
from cudagraph_skill.setup.registration import REFUSED, remove_empty

_PACKAGE = Path(__file__).resolve().parent.parent
_SKILL = ("SKILL.md", "LICENSE", "card.yaml", "references/*.md", "questions/*.txt", "tools/*.py")
_CODE = (".py", ".jinja", ".typed")


class Copy(NamedTuple):
    """Hold what becomes of a folder: the files to be in it, or none; `digests` of what is there now."""

    folder: Path
    files: dict[str, Path]
    digests: dict[str, str]
    note: str = ""


def own_files() -> dict[str, Path]:
    """Return the skill's files by their place in the copy: prose, what search reads, launchers and the package behind them."""
    root = skill_root()
    found = {path.relative_to(root).as_posix(): path for pattern in _SKILL for path in sorted(root.glob(pattern))}
    for path in sorted(_PACKAGE.rglob("*")):
        place = path.relative_to(_PACKAGE)
        if path.suffix in _CODE and not {"_skill", "__pycache__"} & set(place.parts):
            found[f"tools/cudagraph_skill/{place.as_posix()}"] = path
    return found


def copied(folder: Path) -> Copy:
    """Return the copy to be made; one of an earlier call that nobody changed is replaced.

    Raises:
        SkillError: Something else is there, or it was changed (exit code 1), or it cannot be written (3).
    """
    files = own_files()
    if not os.path.lexists(folder):
        _refuse_unwritable(next(parent for parent in folder.parents if parent.exists()))
        return Copy(folder, files, {})
    digests = _ours(folder, "nothing is copied")
    same = digests == {name: _digest(path) for name, path in files.items()}
    return Copy(folder, files, digests, f"{folder} has these files already" if same else "")


def taken_away(folder: Path) -> Copy:
    """Return the removal of a copy that nobody changed.

    Raises:
        SkillError: It is no copy, or was changed (exit code 1), or it cannot be removed (3).
    """
    if not os.path.lexists(folder):
        return Copy(folder, {}, {}, f"{folder} is not there: there is nothing to undo")
    return Copy(folder, {}, _ours(folder, "nothing is removed"))


def write(copy: Copy) -> None:
    """Put the new folder in the place of the old one, or remove that.

    Raises:
        SkillError: It cannot be written.
    """
    folder = copy.folder
    try:
        made = receipts.read(folder).get("folders") or [str(parent) for parent in folder.parents if not parent.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".cuda-graphs.") as spare:
            if copy.files:
                receipts.write(folder, {"files": _filled(Path(spare, "new"), copy.files), "folders": made})
            if folder.exists():
                folder.rename(Path(spare, "old"))
            if copy.files:
                Path(spare, "new").rename(folder)
        if not copy.files:
            receipts.remove(folder)
            remove_empty(made)
    except OSError as error:
        raise SkillError(f"{error.filename or folder}: {error.strerror}", 3) from None


def version(folder: Path) -> str:
    """Return the version that a copy of the skill names, or "" ."""
    try:
        match = re.search(r"^version:\s*(\S+)", (folder / "card.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, ValueError):
        return ""
    return match[1] if match else ""


def differing(folder: Path) -> int:
    """Return how many of the skill's files a copy lacks or has otherwise than this package."""
    return sum(_digest(folder / name) != _digest(path) for name, path in own_files().items())


def _filled(new: Path, files: dict[str, Path]) -> dict[str, str]:
    """Copy the files into a new folder, and return their digests."""
    for name, path in files.items():
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, new / name)
    return {name: _digest(new / name) for name in files}


def _ours(folder: Path, so: str) -> dict[str, str]:
    """Return the digests of a folder's files, where they are exactly those of a receipt or of this package."""
    by_hand = f"{so}, remove it by hand if you do not need it"
    if folder.is_symlink():
        raise SkillError(f"{folder} is a link to {os.path.realpath(folder)}: {by_hand}", REFUSED)
    if not folder.is_dir():
        raise SkillError(f"{folder} is no folder: {by_hand}", REFUSED)
    _refuse_unwritable(folder.parent)
    kept: Any = receipts.read(folder).get("files") or {name: _digest(path) for name, path in own_files().items()}
    found = {
        path.relative_to(folder).as_posix(): _digest(path)
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() and "__pycache__" not in path.parts
    }
    if found != kept:
        odd = next(name for name in sorted({*found, *kept}) if found.get(name) != kept.get(name))
        raise SkillError(f"{folder} is not as `skill install` left it, {odd} differs: {by_hand}", REFUSED)
    return found


def _refuse_unwritable(place: Path) -> None:
    if not os.access(place, os.W_OK) or not place.stat().st_mode & 0o222:
        raise SkillError(f"{place} is write-protected: name another place with `--scope project --folder FOLDER`", 3)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
