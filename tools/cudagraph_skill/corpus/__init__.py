"""Find the sections of the references that answer a question: `skill search`, `read` and `explain`.

A question goes in, an `Answer` with passages comes out. The life of `open_index(root).search(question)`:

1. `files.documents` reads SKILL.md, references/*.md with their questions/*.txt, and a user's Markdown.
2. `index.open_index` opens the index of exactly this content from the folder that `cache.folder` has checked.
3. If there is none, `building.lock` lets one process build it:
   `load.sections` cuts the files at their `headings`, `analysis.content` turns sections into postings and records, and
   `whoosh_store.write` keeps them (`sqlite_store.write` where Whoosh is not installed; memory where nothing can be kept).
4. `Index.search` repairs spelling, or keeps what is English of a question in another `language`; `rank.Question` takes the
   question apart with `terms` and `porter`.
5. The 30 sections with the best sum of BM25 impacts are candidates; `Question.judge` scores how they cover the question, and
   `Question.is_answered_by` decides whether the best one answers it at all.
6. `excerpt.fit` cuts their text to the budget, and `output` formats it.

`lookup.find` and `lookup.explain` resolve a reference or an id on the same sections, without a search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudagraph_skill.corpus.index import Index, open_index
    from cudagraph_skill.corpus.section import Answer, Hit, Section

__all__ = ["Answer", "Hit", "Index", "Section", "open_index"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: an import of this package costs nothing."""
    from importlib import import_module  # noqa: PLC0415 - see above

    module = {"Index": "index", "open_index": "index"}.get(name, "section")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
