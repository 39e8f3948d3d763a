"""One way through a Python file: what was chosen, made and not followed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.config.input.module import Function
from cudagraph_skill.config.input.record import Class, Given, Record
from cudagraph_skill.config.settings import Outside, Span, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cudagraph_skill.config.input.module import Module
    from cudagraph_skill.config.settings import Setting

ENVIRONMENTS = ("os.environ", "environ")


class TooManyStepsError(Exception):
    """The file has more statements on one path than are followed."""


class ReturnedError(Exception):
    """A function returns; its value is the argument."""

    def __init__(self, value: object) -> None:
        self.value = value


class Execution:
    """What is known of one way through a file.

    Attributes:
        decisions: The way to take at each condition that is not known; the first way after they run out.
        variables: The environment of the run, as the user gave it.
        has: Says whether the releases in use have a field, or an importable name; None where that is not known.
        taken: The ways that were taken.
        records: Every record that was made or was given a field.
        environment: Variables that the code sets in `os.environ`.
        seen: Identities of the nodes that were on the path.
        unread: What was not followed.
    """

    def __init__(
        self, module: Module, decisions: Sequence[bool], variables: Mapping[str, str], has: Callable[[str], bool | None]
    ) -> None:
        self.variables = variables
        self.has = has
        self.main = self.module = module
        self.calling = 0  # line of the main file that leads into another one
        self.decisions = list(decisions)
        self.taken: list[bool] = []
        self.records: list[Record] = []
        self.environment: dict[str, Setting] = {}
        self.seen: set[int] = set()
        self.unread: list[str] = []
        self.steps = 0
        self.depth = 0

    def _block(self, body: Sequence[ast.stmt], names: dict[str, object]) -> None:
        """Follow statements."""
        raise NotImplementedError

    def _chosen(self) -> bool:
        """Take a way through a condition that is not known, and keep which it was."""
        way = self.decisions[len(self.taken)] if len(self.taken) < len(self.decisions) else True
        self.taken.append(way)
        return way

    @staticmethod
    def _is_true(value: object) -> bool:
        return isinstance(value, (Outside, Function, Class, Record)) or bool(value)

    def _lost(self, node: ast.AST) -> None:
        text = self.source(node).partition("\n")[0][:80]
        self.unread.append(f"line {self._line(node)}: `{text}` sets a field of an object that is not known")

    def _variable(self, name: object, default: object = None) -> object:
        """Return what the environment has: what the code set, else what the user gave, else nothing."""
        own = self.environment.get(str(name))
        return own.value if own else self.variables.get(str(name), default)

    def _record(self, kind: str, base: str) -> Record:
        record = Record(kind, base)
        self.records.append(record)
        return record

    def _keep(self, record: Record) -> None:
        if not any(other is record for other in self.records):
            self.records.append(record)

    def _given(self, value: object, written: str, node: ast.AST, right: ast.AST) -> Given:
        span = Span(*self.span(node), *self.span(right)) if self.module is self.main else None
        return Given(value, written, self._line(node), span)

    def _entry(self, value: object, name: str, key: ast.expr, right: ast.expr) -> Given:
        """Return an entry of a dict with its place."""
        span = Span(self.span(key)[0], self.span(right)[1], *self.span(right)) if self.module is self.main else None
        return Given(value, name, self._line(key), span)

    def _line(self, node: ast.AST) -> int:
        """Return the line of a node, or of the main file where it leads to it."""
        return getattr(node, "lineno", 0) if self.module is self.main else self.calling

    def _unknown(self, node: ast.AST) -> Unread:
        return Unread(self.source(node).partition("\n")[0][:80] if hasattr(node, "lineno") else "?")

    def source(self, node: ast.AST) -> str:
        """Return the text of a node."""
        return self.module.source(node)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the offsets of a node in its file."""
        return self.module.span(node)


def dotted(node: ast.expr) -> str:
    """Spell a name with its attributes, or return an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    owner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{owner}.{node.attr}" if owner and isinstance(node, ast.Attribute) else ""


def is_unknown(value: object) -> bool:
    """Return whether nothing is known of a value: it was not read, or is a field of an object that was not."""
    return isinstance(value, Unread) or (isinstance(value, Record) and (value.default or bool(value.base)) and not value.given)
