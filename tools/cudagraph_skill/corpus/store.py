"""What a search reads: postings by term, and a record for each section; from Whoosh, from SQLite or from memory."""

from __future__ import annotations

from array import array
from typing import Protocol
from zlib import crc32

_BUCKETS = 4096  # of names; each is asked for as a whole, so an entry of its own for each would be mostly waste

Posting = tuple["array[int]", "array[float]"]  # numbers of sections, and the impact on each
NOWHERE: Posting = (array("I"), array("f"))


class Store(Protocol):
    """What a search reads: from memory, from Whoosh or from SQLite."""

    def __len__(self) -> int:
        """Return the number of sections."""

    def frequency(self, term: str) -> int:
        """Return how many sections have a term."""

    def posting(self, term: str) -> Posting:
        """Return the sections that have a term."""

    def record(self, number: int) -> str:
        """Return what `rank.record` reads."""


def bucket(name: str) -> str:
    """Return the term that stands for all names with the same checksum."""
    return f"@{crc32(name.encode(errors='surrogatepass')) % _BUCKETS}"
