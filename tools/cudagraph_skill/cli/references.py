"""Open the references for the commands that read them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

from cudagraph_skill.cli.terminal import say
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import quoted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from cudagraph_skill.corpus.index import Index

_T = TypeVar("_T")


def open_references(args: argparse.Namespace) -> Index:
    """Return the index of the references, and of `--corpus`."""

    def opened(root: Path) -> Index:
        from cudagraph_skill.corpus.index import open_index

        return open_index(root, args.corpus, say)

    return with_packages(opened)


def with_packages(opened: Callable[[Path], _T]) -> _T:
    """Call `opened` with the root of the skill; if a package is missing, say which in one sentence."""
    from cudagraph_skill.paths import skill_root

    root = skill_root()
    try:
        return opened(root)
    except ModuleNotFoundError as error:
        raise SkillError(
            f"this needs the package {error.name}, which {sys.executable} does not have: run "
            f"`pip install whoosh markdown-it-py pyyaml`, or grep -rni 'WORD' {quoted(str(root / 'references'))}",
            3,
        ) from None
