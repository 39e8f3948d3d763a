"""Open the references for the commands that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.cli.terminal import say

if TYPE_CHECKING:
    import argparse

    from cudagraph_skill.corpus.index import Index


def open_references(args: argparse.Namespace) -> Index:
    """Return the index of the references, and of `--corpus`."""
    from cudagraph_skill.corpus.index import open_index
    from cudagraph_skill.paths import skill_root

    return open_index(skill_root(), args.corpus, say)
