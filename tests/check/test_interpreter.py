"""Compare what the interpreter knows of values with comments: in tests/check/programs `#? int 3` is about the statement below.

The statement is an assignment to one name, or an expression. Where it runs several times, the comment lists what it gives, in
the order of first appearance, with ` / ` between. `unknown` stands where the interpreter says nothing, which is never wrong.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill.check.input.modules import Module, Project
from cudagraph_skill.check.input.source import read_source
from cudagraph_skill.check.interpreter.language import PYTHON
from cudagraph_skill.check.interpreter.machine import Machine
from cudagraph_skill.check.interpreter.values import (
    Array,
    Bound,
    Choice,
    Class,
    External,
    Function,
    Host,
    Instance,
    Mapping,
    Method,
    Object,
    Sequence,
    Tensor,
    Value,
)
from cudagraph_skill.check.library import answers

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
MARK = "#? "


class Watched(Machine):
    """Run a program and note what statements on the wanted lines give."""

    def __init__(self, project: Project, wanted: set[int]) -> None:
        super().__init__(project, PYTHON, answers)
        self.wanted = wanted
        self.given: dict[int, list[str]] = {}

    def statement(self, node: ast.stmt) -> int:
        """Run one statement; note the value of the name that it assigns, or of its expression."""
        if node.lineno not in self.wanted:
            return super().statement(node)
        if isinstance(node, ast.Expr):
            value, status = self.value(node.value), 0
        else:
            status = super().statement(node)
            value = self.value(ast.Name(_target(node), ast.Load()))
        texts = self.given.setdefault(node.lineno, [])
        if (text := described(value)) not in texts:
            texts.append(text)
        return status


def _target(node: ast.stmt) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    assert isinstance(target, ast.Name), ast.unparse(node)
    return target.id


def described(value: Value) -> str:
    """Return what is known of a value, in words."""
    describe = _DESCRIPTIONS.get(type(value))
    return describe(value) if describe else type(value).__name__.lower()


def _described_scalar(value: Host) -> str:
    if value.known:
        return "None" if value.value is None else f"{value.kind} {value.value}".rstrip()
    return {"": "unknown", "extent": "number"}.get(value.kind, value.kind)


def _described_tensor(value: Tensor) -> str:
    place = f" on {value.device}" if value.device else ""
    maybe = " or None" if value.optional else ""
    return f"{value.dtype} tensor{place}{_dimensions(value.ndim)}{maybe}".lstrip()


def _dimensions(count: int | None) -> str:
    return "" if count is None else f", {count} dimension{'' if count == 1 else 's'}"


_DESCRIPTIONS: dict[type, Callable[[Any], str]] = {
    Host: _described_scalar,
    Tensor: _described_tensor,
    Sequence: lambda value: f"{value.kind} of {'unknown length' if value.items is None else len(value.items)}",
    Mapping: lambda value: f"dict of {'unknown length' if value.rest is not None else len(value.slots)}",
    Array: lambda value: "numpy array" + _dimensions(value.ndim),
    Choice: lambda value: " or ".join(sorted(map(described, value.options))),
    Instance: lambda value: f"instance of {value.cls.name}",
    Class: lambda value: f"class {value.name}",
    Function: lambda value: f"function {value.name}",
    Bound: lambda value: f"method {getattr(value.function, 'name', '')}",
    Method: lambda value: f"method {value.name}",
    Module: lambda value: f"module {value.name}",
    External: lambda value: value.name,
    Object: lambda value: f"instance of {value.name}",
    Value: lambda _: "unknown",
}


def expected(path: Path) -> dict[int, str]:
    """Return the comments of a program by the line that each is about."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    return {number + 1: line.removeprefix(MARK) for number, line in enumerate(lines, 1) if line.startswith(MARK)}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_values_are_what_the_comments_say(path: Path) -> None:
    comments = expected(path)
    project = Project(read_source(str(path)))
    machine = Watched(project, set(comments))
    machine.load(project.main, program=True)
    given = {line: " / ".join(machine.given.get(line, ["not run"])) for line in comments}
    wrong = [f"{path.name}:{line}: {given[line]}, not {comments[line]}" for line in comments if given[line] != comments[line]]
    assert not wrong, "\n".join(wrong)


def test_there_are_many_comments() -> None:
    assert sum(len(expected(path)) for path in PROGRAMS) >= 150
