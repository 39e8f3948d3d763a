"""Say what a finding rests on: which values its line works with, what they were taken for, and where they came from."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.values import (
    Array,
    Bound,
    Class,
    External,
    Function,
    Holder,
    Host,
    Instance,
    Mapping,
    Object,
    Origin,
    Scope,
    Sequence,
    Tensor,
    Value,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.check.interpreter.frames import Site

Places = dict[tuple[int, Any], "Site"]  # where each name or attribute got its value, by the id of its holder and its key
_SHOWN = 6  # values of a line that are listed
_LONG = 60  # characters of a Python value


def of_line(node: ast.AST, scope: Scope, places: Places, conditions: list[tuple[Site, ast.AST]]) -> tuple[str, ...]:
    """Return a sentence for each name and attribute of a piece of code, then one for each condition that it stands under."""
    told = dict.fromkeys(_told(node, scope, places))
    unknown = [
        f"stands under {quoted(test)} ({path}:{line}), of which nothing is known" for (path, line, _), test in conditions
    ]
    return (*list(told)[:_SHOWN], *unknown)


def of_change(origin: Origin, before: Value | None, after: Value | None) -> str:
    """Return a sentence about a value that changes from call to call."""
    if before is None or after is None:
        return f"changes at {origin.path}:{origin.line}"
    return f"held {described(before)} at one call of the captured code, and {described(after)} at the next"


def _told(node: ast.AST, scope: Scope, places: Places) -> Iterator[str]:
    for part in ast.walk(node):
        if not isinstance(part, (ast.Name, ast.Attribute)) or not isinstance(part.ctx, ast.Load):
            continue
        slot = _slot(part, scope)
        value = slot[0].slots.get(slot[1]) if slot is not None else None
        # Names of modules, functions and objects say nothing that the line does not.
        if slot is None or value is None or isinstance(value, (External, Function, Class, Bound, Instance)):
            continue
        where = places.get((id(slot[0]), slot[1]))
        yield f"{quoted(part)} is {described(value)}{f', set at {where[0]}:{where[1]}' if where else ''}"


def _slot(node: ast.expr, scope: Scope) -> tuple[Holder, Any] | None:
    """Return where a name or attribute is kept; None for what only running the code would tell."""
    if isinstance(node, ast.Name):
        found: Scope | None = scope
        while found is not None and node.id not in found.slots:
            found = found.outer
        return (found, node.id) if found is not None else None
    owner = _slot(node.value, scope) if isinstance(node, ast.Attribute) else None
    held = owner[0].slots.get(owner[1]) if owner is not None else None
    return (held, node.attr) if isinstance(held, Holder) and isinstance(node, ast.Attribute) else None


def described(value: Value) -> str:
    """Return in words what a value was taken for."""
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, Host):
        return _host(value)
    if isinstance(value, Object):
        return f"an object of {value.name}"
    if isinstance(value, Sequence):
        return f"a {value.kind} of {len(value.items) if value.items is not None else 'unknown length'}"
    if isinstance(value, Mapping):
        return "a dict"
    return "a numpy array" if isinstance(value, Array) else "not known"


def _tensor(value: Tensor) -> str:
    where = {"cuda": "a GPU tensor", "cpu": "a CPU tensor"}.get(value.device, "a tensor on a device that is not known")
    extents = "" if value.ndim is None else f" of {value.ndim} dimension{'s' * (value.ndim != 1)}"
    assumed = ", which is assumed: nothing is known of it, and the captured code uses it as one" * value.assumed
    return f"{where}{extents}{f' ({value.dtype})' * bool(value.dtype)}{assumed}"


def _host(value: Host) -> str:
    changes = ", which changes from call to call" * bool(value.origins)
    if not value.known:
        return f"a Python {value.kind or 'value'} that is not known{changes}"
    text = repr(value.value)
    return f"{text if len(text) <= _LONG else text[: _LONG - 1] + '…'}{changes}"
