"""Keep an index with SQLite from the standard library, where Whoosh is not installed."""

from __future__ import annotations

import sqlite3
import weakref
from array import array
from contextlib import closing
from typing import TYPE_CHECKING

from cudagraph_skill.corpus.store import NOWHERE

if TYPE_CHECKING:
    from pathlib import Path

    from cudagraph_skill.corpus.analysis import Content
    from cudagraph_skill.corpus.store import Posting

NAME = "sqlite"
_FILE = "index.sqlite"
_TABLES = """
    pragma journal_mode = off;
    pragma synchronous = off;
    create table postings (term text primary key, frequency integer, numbers blob, impacts blob) without rowid;
    create table records (number integer primary key, record text);
"""


class _Store:
    def __init__(self, folder: Path) -> None:
        path = (folder / _FILE).as_uri()
        self._base = sqlite3.connect(f"{path}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        weakref.finalize(self, self._base.close)  # Python 3.13 warns about a connection that is collected open
        (self._count,) = self._base.execute("select count(*) from records").fetchone()

    def __len__(self) -> int:
        return int(self._count)

    def frequency(self, term: str) -> int:
        row = self._base.execute("select frequency from postings where term = ?", (term,)).fetchone()
        return int(row[0]) if row else 0

    def posting(self, term: str) -> Posting:
        row = self._base.execute("select numbers, impacts from postings where term = ?", (term,)).fetchone()
        return (array("I", row[0]), array("f", row[1])) if row else NOWHERE

    def record(self, number: int) -> str:
        (record,) = self._base.execute("select record from records where number = ?", (number,)).fetchone()
        return str(record)


def write(folder: Path, content: Content) -> None:
    """Write an index into an empty folder.

    Raises:
        OSError: there is no room, or no right to write.
    """
    rows = ((term, len(numbers), numbers.tobytes(), impacts.tobytes()) for term, (numbers, impacts) in content.postings.items())
    try:
        with closing(sqlite3.connect(folder / _FILE)) as base:
            base.executescript(_TABLES)
            base.executemany("insert into postings values (?, ?, ?, ?)", rows)
            base.executemany("insert into records values (?, ?)", enumerate(content.records))
            base.commit()
    except sqlite3.Error as error:
        raise OSError(0, f"SQLite cannot write: {error}", str(folder)) from None


def open_store(folder: Path) -> _Store:
    """Open what `write` wrote; a damaged file raises sqlite3.Error here or later."""
    return _Store(folder)
