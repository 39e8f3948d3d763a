"""Keep an index with Whoosh, where it is installed: the one module that knows Whoosh.

The postings are finished when they come here, so they are handed to Whoosh's codec whole: a term at a time instead of a posting
at a time, which is ten times faster than its own writer.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cudagraph_skill.corpus.store import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cudagraph_skill.corpus.analysis import Content
    from cudagraph_skill.corpus.store import Posting


@contextlib.contextmanager
def _without_downloads() -> Iterator[None]:
    """Keep Whoosh from importing urllib.request, with http, ssl and email behind it: it uses nothing of it."""
    if "urllib.request" in sys.modules:
        yield
        return
    stand_in = ModuleType("urllib.request")
    stand_in.urlretrieve = None  # type: ignore[attr-defined]
    sys.modules["urllib.request"] = stand_in
    try:
        yield
    finally:
        del sys.modules["urllib.request"]


with _without_downloads(), warnings.catch_warnings():
    warnings.simplefilter("ignore", SyntaxWarning)  # of its `is 0`, wherever an installer did not compile it (uv)
    from whoosh import fields
    from whoosh.codec.whoosh3 import W3Codec, W3FieldWriter
    from whoosh.filedb.filestore import FileStorage

NAME = "whoosh"
_ALL = 1 << 30  # postings of a term that stand in one block: there are as many as sections at most


class _Codec(W3Codec):  # type: ignore[misc]
    length_stats = False

    def __init__(self, content: Content) -> None:
        super().__init__(blocklimit=_ALL, compression=0)
        self.content = content

    def new_segment(self, storage: Any, indexname: str) -> Any:
        """Return a segment that Whoosh's own codec reads."""
        return W3Codec().new_segment(storage, indexname)

    def field_writer(self, storage: Any, segment: Any) -> Any:
        return _FieldWriter(self, storage, segment)


class _FieldWriter(W3FieldWriter):  # type: ignore[misc]
    def add_postings(self, schema: Any, _lengths: object, _items: object) -> None:
        """Write the postings of the codec's content; Whoosh's own pool of postings is empty."""
        self.start_field("terms", schema["terms"])
        for term, (numbers, impacts) in sorted(self._codec.content.postings.items()):
            self.start_term(term.encode())
            block = self._postwriter
            block._ids, block._weights, block._maxweight = numbers, impacts, max(impacts)  # noqa: SLF001 - see above
            self.finish_term()
        self.finish_field()


class _Store:
    def __init__(self, folder: Path) -> None:
        self._reader = FileStorage(str(folder)).open_index().reader()

    def __len__(self) -> int:
        return int(self._reader.doc_count_all())

    def frequency(self, term: str) -> int:
        return int(self._reader.doc_frequency("terms", term))

    def posting(self, term: str) -> Posting:
        if not self.frequency(term):
            return NOWHERE
        matcher = self._reader.postings("terms", term)
        numbers, impacts = NOWHERE[0][:], NOWHERE[1][:]
        while matcher.is_active():
            numbers.append(matcher.id())
            impacts.append(matcher.weight())
            matcher.next()
        return numbers, impacts

    def record(self, number: int) -> str:
        return str(self._reader.stored_fields(number)["record"])


def write(folder: Path, content: Content) -> None:
    """Write an index into an empty folder."""
    schema = fields.Schema(terms=fields.ID(), record=fields.STORED())
    writer = FileStorage(str(folder)).create_index(schema).writer(codec=_Codec(content))
    for record in content.records:
        writer.add_document(record=record)
    writer.commit()


def open_store(folder: Path) -> _Store:
    """Open what `write` wrote; whatever Whoosh raises at a damaged file may come out of here."""
    return _Store(folder)
