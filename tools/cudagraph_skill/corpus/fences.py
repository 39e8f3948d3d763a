"""Find the fences of Markdown files, with markdown-it-py."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class Fence(NamedTuple):
    """A fence: `info` is all after the backticks, `line` the 1-based line of its first line of code."""

    path: str
    line: int
    info: str
    code: str


def fences(root: Path, paths: Iterable[str]) -> Iterator[Fence]:
    """Yield the fences of files below `root`.

    Raises:
        SkillError: markdown-it-py is not installed (exit code 3).
    """
    try:
        from markdown_it import MarkdownIt
    except ModuleNotFoundError:
        raise SkillError("the fences of the references are read with markdown-it-py: `pip install markdown-it-py`", 3) from None
    reader = MarkdownIt("commonmark")
    for path in paths:
        for token in reader.parse((root / path).read_text(encoding="utf-8")):
            if token.type == "fence" and token.map:
                yield Fence(path, token.map[0] + 2, token.info.strip(), token.content)
