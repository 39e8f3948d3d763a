"""The search index of one process, opened with the first question."""

from __future__ import annotations

import gc
import sys
from threading import Lock
from typing import TYPE_CHECKING

from cudagraph_skill.paths import skill_root

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.corpus.index import Index

_building = Lock()  # the first calls may come together: one of them builds, the others wait
_indexes: list[Index] = []  # one, when the first question has come


def note(sentence: str) -> None:
    """Tell whoever started the server."""
    print(sentence, file=sys.stderr)  # noqa: T201 - stdout is the protocol's


def index(say: Callable[[str], None] = note) -> Index:
    """Return the search index, and tell if it has to be built first."""
    from cudagraph_skill.corpus.index import open_index

    with _building:
        if not _indexes:
            _indexes.append(open_index(skill_root(), say=say))
            gc.collect()
            gc.freeze()  # what lives as long as this process is not looked at again: that took a tenth of a second each time
        return _indexes[0]
