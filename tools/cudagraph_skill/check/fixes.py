"""Apply the automatic fixes of findings: as a diff or in place.

A file is replaced as a whole or not at all, keeps its encoding, line ends and permissions, and is left alone where it changed
since it was read or where the result would not parse.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.check.input.source import decoded, parsed
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_skill.check.findings import Edit, Report

_OTHERS = ("site-packages", "dist-packages")  # code that is not the user's own


class Patch(NamedTuple):
    """Hold one file before and after: `edits` places change, `left` overlap with another edit and wait."""

    path: str
    before: bytes
    after: bytes
    edits: int
    left: int


def patches(report: Report, notes: list[str], named: Iterable[str], pasted: dict[str, bytes] | None = None) -> list[Patch]:
    """Return the changes that the findings of a report carry, by file; append what is not changed, and why, to `notes`.

    Only files that the user `named`, or that lie in a folder that is named, are changed.
    """
    allowed = [os.path.realpath(path) for path in named]
    by_path: dict[str, dict[Edit, None]] = {}
    for finding in report.findings:
        if finding.edit:
            by_path.setdefault(finding.path, {})[finding.edit] = None
    patched = []
    for path, edits in by_path.items():
        try:
            data = (pasted or {}).get(path)
            if data is None and not _is_in(path, allowed):
                raise SkillError(f"{path}: not changed: it was not named; it is imported by a file that was")
            patched.append(_patch(path, Path(path).read_bytes() if data is None else data, edits))
        except SkillError as error:
            notes.append(str(error))
        except OSError as error:
            notes.append(f"{path}: not changed: {error.strerror}")
    return patched


def _is_in(path: str, places: list[str]) -> bool:
    real = os.path.realpath(path)
    return any(real == place or real.startswith(place.rstrip(os.sep) + os.sep) for place in places)


def diff(patch: Patch) -> str:
    """Return a unified diff for `patch -p1`, with control characters escaped."""
    from difflib import unified_diff  # noqa: PLC0415 - for --diff and --fix only

    before, after = ([_shown(line) for line in _lines(decoded(data).text)] for data in (patch.before, patch.after))
    name = patch.path.lstrip("/")
    return "\n".join(unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm=""))


def _shown(line: str) -> str:
    body = line.rstrip("\r\n")
    end = "" if len(body) < len(line) else "\n\\ No newline at end of file"
    return "\t".join(map(printable, body.split("\t"))) + end


def apply(patch: Patch) -> None:
    """Replace the file, unless it has changed since it was read.

    Raises:
        SkillError: the file has changed, or cannot be written.
    """
    path = Path(os.path.realpath(patch.path))  # a link stays a link
    try:
        if path.read_bytes() != patch.before:
            raise SkillError(f"{patch.path}: not changed: it changed after it was read; check again")
        if not os.access(path, os.W_OK):
            raise SkillError(f"{patch.path}: not changed: it is write-protected", 3)
        status = path.stat()
        if status.st_nlink > 1:  # the new file would have but one of the names
            raise SkillError(f"{patch.path}: not changed: it has {status.st_nlink} hard links; apply the output of --diff")
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(patch.after)
                if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), status.st_mode & 0o7777)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SkillError(f"{patch.path}: not changed: {error.strerror}", 3) from None


def _patch(path: str, data: bytes, edits: Iterable[Edit]) -> Patch:
    if path.endswith(".ipynb"):
        raise SkillError(f"{path}: not changed: fixes are not applied to notebooks")
    if any(part in _OTHERS for part in Path(path).parts):
        raise SkillError(f"{path}: not changed: it belongs to an installed package")
    text, encoding, mark = decoded(data)
    if mark + text.encode(encoding, "replace") != data:
        raise SkillError(f"{path}: not changed: it is not valid {encoding}")
    kept, left = _apart(edits)
    changed = _edited(text, kept, path)
    if parsed(changed.replace("\r\n", "\n").replace("\r", "\n"))[0] is None:
        raise SkillError(f"{path}: not changed: the result would not be Python")
    try:
        return Patch(path, data, mark + changed.encode(encoding), len(kept), left)
    except UnicodeEncodeError:
        raise SkillError(f"{path}: not changed: the correction has letters that {encoding} lacks") from None


def _apart(edits: Iterable[Edit]) -> tuple[list[Edit], int]:
    """Return the edits from top to bottom without overlapping ones, and how many those are."""
    kept: list[Edit] = []
    left = 0
    for edit in sorted(edits):
        behind = not kept or (edit.first, edit.column) >= (kept[-1].last, kept[-1].end)
        if not behind or (kept and edit[:4] == kept[-1][:4]):  # inside the last, or a second insertion at one place
            left += 1
        else:
            kept.append(edit)
    return kept, left


def _edited(text: str, edits: list[Edit], path: str) -> str:
    lines = _lines(text)
    for edit in reversed(edits):
        if not 1 <= edit.first <= edit.last <= len(lines):
            raise SkillError(f"{path}: not changed: it has no line {edit.last}")
        body = lines[edit.last - 1]
        ends = body[len(body.rstrip("\r\n")) :] or next((line[-2:] for line in lines if line.endswith("\r\n")), "\n")
        head = lines[edit.first - 1].encode("utf-8")[: edit.column].decode("utf-8", "replace")
        tail = body.encode("utf-8")[edit.end :].decode("utf-8", "replace")
        lines[edit.first - 1 : edit.last] = [head + edit.text.replace("\n", ends) + tail]
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """Split into lines with their ends; unlike `splitlines`, do not split at a form feed."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
