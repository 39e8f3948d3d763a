"""Follow the statements of a Python file on what is known of its values, without running it."""

from __future__ import annotations

import ast
import copy
from contextlib import suppress
from typing import TYPE_CHECKING

from cudagraph_skill.config.input.builtin import is_quiet
from cudagraph_skill.config.input.calls import Calls
from cudagraph_skill.config.input.execution import ReturnedError, TooManyStepsError, dotted, is_unknown
from cudagraph_skill.config.input.module import Function, Imported
from cudagraph_skill.config.input.record import Class, Record
from cudagraph_skill.config.settings import Outside

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_STEPS = 50_000
_MOST_ROUNDS = 200  # of a `while` loop; the servers of a library run for ever


class Follower(Calls):
    """Follow one function, or the module, on one path."""

    def run(self, root: ast.FunctionDef | None) -> None:
        """Follow the module, and then a function with its defaults."""
        names: dict[str, object] = {}
        self.main.names = names
        self._block(self.main.tree.body, names)
        if root is None:
            return
        self.records.clear()
        with suppress(ReturnedError):
            self._block(root.body, self._arguments(root, [], None, names))

    def _block(self, body: Sequence[ast.stmt], names: dict[str, object]) -> None:
        for statement in body:
            self.steps += 1
            if self.steps > _MOST_STEPS:
                raise TooManyStepsError
            self._statement(statement, names)

    def _statement(self, node: ast.stmt, names: dict[str, object]) -> None:
        match node:
            case ast.Assign():
                value = self.value(node.value, names)
                for target in node.targets:
                    self._assign(target, value, node, node.value, names)
            case ast.AnnAssign(value=ast.expr() as right):
                self._assign(node.target, self.value(right, names), node, right, names)
            case ast.AugAssign():
                old = self.value(_loaded(node.target), names)
                new = self._arithmetic(type(node.op), old, self.value(node.value, names), node)
                self._assign(node.target, new, node, node.value, names)
            case ast.Expr():
                self.value(node.value, names, node)
            case ast.Return():
                raise ReturnedError(self.value(node.value, names) if node.value else None)
            case ast.FunctionDef():
                names[node.name] = Function(node, self.module, names)
            case ast.ImportFrom():
                self._import(node, names)
            case ast.ClassDef():
                self._class(node, names)
            case ast.Delete():
                self._delete(node, names)
            case _:
                self._compound(node, names)

    def _compound(self, node: ast.stmt, names: dict[str, object]) -> None:
        """Follow a statement that holds others."""
        match node:
            case ast.If():
                self._block(self._branch(node, names), names)
            case ast.For():
                self._loop(node, names)
            case ast.While():
                self._while(node, names)
            case ast.Match():
                self._match(node, names)
            case ast.With():
                for item in node.items:
                    value = self.value(item.context_expr, names)
                    if item.optional_vars:
                        self._assign(item.optional_vars, value, node, item.context_expr, names)
                self._block(node.body, names)
            case ast.Try():
                handled = node.handlers[0].body if node.handlers and self._fails(node.body) else [*node.body, *node.orelse]
                self._block([*handled, *node.finalbody], names)

    def _delete(self, node: ast.Delete, names: dict[str, object]) -> None:
        """Take entries out of a dict."""
        for target in node.targets:
            owner = self.value(target.value, names) if isinstance(target, ast.Subscript) else None
            key = self.value(target.slice, names) if isinstance(target, ast.Subscript) else None
            if isinstance(owner, dict) and isinstance(key, str):
                owner.pop(key, None)
            else:
                self._skip(node, names)

    def _fails(self, body: Sequence[ast.stmt]) -> bool:
        """Return whether a block imports what the releases in use do not have."""
        imports = (node for node in body if isinstance(node, ast.ImportFrom))
        return any(
            self.has(name) is False for node in imports for name in (node.module or "", *(alias.name for alias in node.names))
        )

    def _while(self, node: ast.While, names: dict[str, object]) -> None:
        for _ in range(_MOST_ROUNDS):
            test = self.value(node.test, names)
            if is_unknown(test):
                break
            if not test:
                return
            self._block(node.body, names)
        self._skip(node, names)

    def _match(self, node: ast.Match, names: dict[str, object]) -> None:
        subject = self.value(node.subject, names)
        for case in node.cases:
            fits = self._fits(case.pattern, subject, names)
            if fits is None or case.guard:
                self._skip(node, names)
                return
            if fits:
                self._block(case.body, names)
                return

    def _fits(self, pattern: ast.pattern, subject: object, names: dict[str, object]) -> bool | None:
        """Return whether a value matches a pattern; None where that is not known."""
        match pattern:
            case ast.MatchAs(pattern=None, name=None):
                return True
            case ast.MatchValue() | ast.MatchSingleton():
                value = self.value(pattern.value, names) if isinstance(pattern, ast.MatchValue) else pattern.value
                return None if is_unknown(subject) or is_unknown(value) else bool(subject == value)
            case ast.MatchOr():
                ways = [self._fits(one, subject, names) for one in pattern.patterns]
                return None if None in ways else any(ways)
        return None

    def _import(self, node: ast.ImportFrom, names: dict[str, object]) -> None:
        """Bind names to other files, which are read when a value is needed."""
        for alias in node.names:
            names[alias.asname or alias.name] = Imported(node, self.module, alias.name)

    def _skip(self, node: ast.stmt, names: dict[str, object]) -> None:
        """Forget what a statement that is not followed binds."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del)):
                names[inner.id] = self._unknown(node)
        text = self.source(node)
        if "cuda_graph" in text or "rng_tracker" in text:
            self.unread.append(f"line {self._line(node)}: `{text.splitlines()[0][:80]}` was not followed")

    def _class(self, node: ast.ClassDef, names: dict[str, object]) -> None:
        """Take the fields that a class gives a default as those of an object of it."""
        bases = [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases]
        own = [base for name in bases if isinstance(base := names.get(name), Class)]
        record = own[0].record.copied() if own else Record(bases[0] if bases else node.name)
        if node.name not in self.module.used:
            self._keep(record)
        functions = {one.name: Function(one, self.module, names) for one in node.body if isinstance(one, ast.FunctionDef)}
        record.methods = {**(own[0].methods if own else {}), **functions}
        names[node.name] = Class(record, record.methods)
        for statement in node.body:
            target: ast.expr | None = statement.target if isinstance(statement, ast.AnnAssign) else None
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
            value = getattr(statement, "value", None)
            if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                self.seen.add(id(target))
                record.give(target.id, self._given(self.value(value, names), target.id, statement, value))

    def _loop(self, node: ast.For, names: dict[str, object]) -> None:
        elements = self.value(node.iter, names)
        elements = list(elements) if isinstance(elements, dict) else elements
        if not isinstance(elements, list):
            self._skip(node, names)
            return
        for element in elements:
            self._assign(node.target, element, node, node.iter, names)
            self._block(node.body, names)

    def _branch(self, node: ast.If, names: dict[str, object]) -> Sequence[ast.stmt]:
        """Return the way to take; one that only raises or prints is not tried where the condition is not known."""
        test = self.value(node.test, names)
        if isinstance(test, (Outside, Function, Class)) or not is_unknown(test):
            return node.body if self._is_true(test) else node.orelse
        if _is_harmless(node.body):
            return node.orelse
        if node.orelse and _is_harmless(node.orelse):
            return node.body
        return node.body if self._chosen() else node.orelse


def _is_harmless(body: Sequence[ast.stmt]) -> bool:
    """Return whether statements change no configuration: they raise, print, or say something."""
    for node in body:
        quiet = isinstance(node, ast.Expr) and (
            isinstance(node.value, ast.Constant) or (isinstance(node.value, ast.Call) and is_quiet(dotted(node.value.func)))
        )
        if not quiet and not isinstance(node, (ast.Raise, ast.Pass, ast.Assert)):
            return False
    return True


def _loaded(node: ast.expr) -> ast.expr:
    """Return the target of `+=` as a value to read."""
    copied = copy.copy(node)
    if isinstance(copied, (ast.Name, ast.Attribute, ast.Subscript)):
        copied.ctx = ast.Load()
    return copied
