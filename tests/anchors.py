"""Phrases that the references were read by, looked up again in the sources.

    python tests/anchors.py torch@2.15=/path/to/torch-2.15/site-packages Megatron-LM@0.19=/path/to/checkout

A source such as `torch@2.13 torch/cuda/graphs.py "keep_graph"` is an anchor: package and version, a file below the folder given
for it, a phrase that stands there. CI does this with the torch that it installs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.corpus import load
from cudagraph_skill.paths import skill_root

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_skill.corpus.section import Section

_ANCHOR = re.compile(r'(\S+?@[\w.]+) (\S+) "(.+)"')


class Anchor(NamedTuple):
    """Where a section's fact was read."""

    ref: str
    package: str
    path: str
    phrase: str


def anchors(sections: Iterable[Section]) -> list[Anchor]:
    """Return all sources of this form, in order."""
    matches = ((section.ref, _ANCHOR.fullmatch(source)) for section in sections for source in section.sources)
    return [Anchor(ref, *match.groups()) for ref, match in matches if match]


def gone(wanted: Iterable[Anchor], folder: Path) -> list[Anchor]:
    """Return the anchors whose phrase is missing from their file below `folder`."""
    return [anchor for anchor in wanted if not _stands(folder / anchor.path, anchor.phrase)]


def _stands(path: Path, phrase: str) -> bool:
    return path.is_file() and phrase in path.read_text(encoding="utf-8", errors="replace")


def main() -> int:
    """Look up the anchors of each PACKAGE@VERSION=FOLDER; exit 1 if a phrase has gone."""
    every = anchors(load.sections(load.documents(skill_root())))
    lost = 0
    for argument in sys.argv[1:]:
        package, _, folder = argument.partition("=")
        mine = [anchor for anchor in every if anchor.package == package]
        missing = gone(mine, Path(folder))
        print(f"{package}: {len(mine)} anchors, {len(missing)} gone", *missing, sep="\n  ")
        lost += len(missing)
    if not sys.argv[1:]:
        print(*sorted({anchor.package for anchor in every}), sep="\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
