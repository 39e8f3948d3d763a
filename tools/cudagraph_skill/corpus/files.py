"""Find the Markdown files to search: the skill's own with their questions, and those of a user's folder."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from pathlib import Path

_MAX_FILE_BYTES = 8 * 1024 * 1024  # a Markdown file larger than this is a data dump; it would dominate the index


class Document(NamedTuple):
    """A Markdown file before it is cut: `shown` is the path that answers print, `asked` its file of `questions/`.

    `ours` says that it belongs to the skill, so that its headings can be read line by line.
    """

    shown: str
    data: bytes
    asked: bytes = b""
    ours: bool = False


def documents(root: Path, extra: Path | None = None) -> list[Document]:
    """Return SKILL.md and references/*.md of the skill, then every Markdown file under `extra`, in a stable order.

    Raises:
        SkillError: `extra` is no folder that can be read, or holds no Markdown.
    """
    own = [root / "SKILL.md", *sorted((root / "references").glob("*.md"))]
    docs = [Document(path.relative_to(root).as_posix(), path.read_bytes(), _asked(root, path), ours=True) for path in own]
    return docs if extra is None else docs + _users_documents(extra)


def _asked(root: Path, reference: Path) -> bytes:
    path = root / "questions" / f"{reference.stem}.txt"
    return path.read_bytes() if path.is_file() else b""


def _users_documents(folder: Path) -> list[Document]:
    if not folder.is_dir():
        raise SkillError(f"--corpus {folder}: there is no such folder; name one that holds Markdown files")
    docs = []
    for path in sorted((*folder.rglob("*.md"), *folder.rglob("*.markdown"))):
        if any(part.startswith(".") or part == "node_modules" for part in path.relative_to(folder).parts):
            continue
        try:
            if path.is_file() and 0 < path.stat().st_size <= _MAX_FILE_BYTES:  # a size of 0 may be a device in disguise
                docs.append(Document(str(path), path.read_bytes()))
        except OSError as error:
            raise SkillError(f"--corpus {folder}: cannot read {path} ({error.strerror}); make it readable") from None
    if not docs:
        raise SkillError(f"--corpus {folder}: no Markdown file (*.md) in it that can be read; name another folder")
    return docs


def digest(docs: list[Document]) -> str:
    """Return a name for exactly this content, 20 hexadecimal digits."""
    state = hashlib.blake2b(digest_size=10)
    for doc in docs:
        state.update(f"{doc.shown}\0{len(doc.data)}\0{len(doc.asked)}\0".encode(errors="surrogateescape"))
        state.update(doc.data)
        state.update(doc.asked)
    return state.hexdigest()
