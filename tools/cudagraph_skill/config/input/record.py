"""What is known of the objects of a Python file: their fields, and the text that gives each its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cudagraph_skill.config.input.module import Function
    from cudagraph_skill.config.settings import Span


class Given(NamedTuple):
    """A value that a field of a record was given, with the text that does it."""

    value: object
    written: str
    line: int
    span: Span | None


class Record:
    """An object with fields: a configuration, or a section of one.

    Attributes:
        kind: Class that it is made of, or an empty text.
        base: Code that made it and was not read, and so may have set any field; empty where all is known.
        changed_by: Code that got it and was not read, and so may have changed any field.
        fields: Value of each field.
        given: Every time that a field was given a value, in order.
        methods: Those of its class, where that stands in the file.
        opened: Fields that were only read, as sections of an object that is not known.
        default: Whether it is a field that the text reads and its class fills in, so all that is not given has its default.
    """

    def __init__(self, kind: str = "", base: str = "", *, default: bool = False) -> None:
        self.kind = kind
        self.base = base
        self.default = default
        self.methods: Mapping[str, Function] = {}
        self.changed_by = ""
        self.fields: dict[str, object] = {}
        self.given: list[tuple[str, Given]] = []
        self.opened: set[str] = set()

    def give(self, name: str, given: Given) -> None:
        """Set a field; what was said of it before no longer counts."""
        self.given = [(other, old) for other, old in self.given if other != name]
        self.given.append((name, given))
        self.fields[name] = given.value

    def children(self) -> Iterator[Record]:
        """Yield the records in its fields."""
        return (value for value in self.fields.values() if isinstance(value, Record))

    def copied(self) -> Record:
        """Return a record of its own with the same fields."""
        record = Record(self.kind, self.base, default=self.default)
        record.changed_by = self.changed_by
        record.methods = self.methods
        record.fields = {name: value.copied() if isinstance(value, Record) else value for name, value in self.fields.items()}
        record.given = list(self.given)
        record.opened = set(self.opened)
        return record


class Class(NamedTuple):
    """A class of the file as a value: an object of it with its defaults, and its methods."""

    record: Record
    methods: Mapping[str, Function]
