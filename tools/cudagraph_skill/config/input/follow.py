"""Follow the statements of a Python file on what is known of its values, without running it."""

from __future__ import annotations

import ast
import copy
import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cudagraph_skill.config.input.builtin import computed, is_quiet, plain
from cudagraph_skill.config.input.module import Function, Imported, Module
from cudagraph_skill.config.input.record import Class, Entries, Given, Record
from cudagraph_skill.config.options import LIVES
from cudagraph_skill.config.settings import Fixed, Member, Outside, Setting, Span, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MOST_STEPS = 50_000
_DEEPEST = 12  # calls of functions of the file
_LONGEST = 10_000  # elements of a list
_ENUMS = ("CudaGraphScope", "CudaGraphModule", "InferenceCudaGraphScope")
_TYPES: dict[str, type] = {"bool": bool, "dict": dict, "float": float, "int": int, "list": list, "str": str}
_ENVIRONMENTS = ("os.environ", "environ")
_HELPERS = ("set_full_iteration_cuda_graph", "set_cuda_graph_modules", "clear_cuda_graph_modules")
_METHODS: dict[type, tuple[str, ...]] = {
    dict: ("items", "keys", "values", "get", "pop", "copy", "setdefault"),
    list: ("copy", "index", "count", "pop"),
    str: (
        "split",
        "rsplit",
        "lower",
        "upper",
        "strip",
        "replace",
        "join",
        "startswith",
        "endswith",
        "removeprefix",
        "removesuffix",
        "partition",
    ),
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
}


class TooManyStepsError(Exception):
    """The file has more statements on one path than are followed."""


class _ReturnedError(Exception):
    """A function returns; its value is the argument."""

    def __init__(self, value: object) -> None:
        self.value = value


class Follower:
    """Follow one function, or the module, on one path.

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

    def run(self, root: ast.FunctionDef | None) -> None:
        """Follow the module, and then a function with its defaults."""
        names: dict[str, object] = {}
        self.main.names = names
        self._block(self.main.tree.body, names)
        if root is None:
            return
        self.records.clear()
        with suppress(_ReturnedError):
            self._block(root.body, self._arguments(root, [], None, names))

    # Statements

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
                raise _ReturnedError(self.value(node.value, names) if node.value else None)
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
        while True:
            test = self.value(node.test, names)
            if _is_unknown(test):
                self._skip(node, names)
            if _is_unknown(test) or not test:
                return
            self._block(node.body, names)

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
                return None if _is_unknown(subject) or _is_unknown(value) else bool(subject == value)
            case ast.MatchOr():
                ways = [self._fits(one, subject, names) for one in pattern.patterns]
                return None if None in ways else any(ways)
        return None

    def _import(self, node: ast.ImportFrom, names: dict[str, object]) -> None:
        """Bind names to other files, which are read when a value is needed."""
        for alias in node.names:
            names[alias.asname or alias.name] = Imported(node, self.module, alias.name)

    def _resolved(self, name: str, names: dict[str, object]) -> object:
        """Return the value of a name; one of another file is looked up there."""
        value = names[name]
        while isinstance(value, Imported):
            value = self._looked_up(value, name)
            names[name] = value
        return value

    def _looked_up(self, imported: Imported, name: str) -> object:
        module = imported.into.imported(imported.node)
        if module is None:
            return Outside(name)
        if module.names is None:
            module.names = {}
            outer, kept = self.module, list(self.records)
            self.module = module
            with suppress(_ReturnedError):
                self._block(module.tree.body, module.names)
            self.module, self.records = outer, kept
        return module.names.get(imported.name, Outside(name))

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
        if isinstance(test, (Outside, Function, Class)) or not _is_unknown(test):
            return node.body if self._is_true(test) else node.orelse
        if _is_harmless(node.body):
            return node.orelse
        if node.orelse and _is_harmless(node.orelse):
            return node.body
        return node.body if self._chosen() else node.orelse

    def _decided(self, test: ast.expr, names: dict[str, object]) -> bool:
        value = self.value(test, names)
        known = isinstance(value, (Outside, Function, Class)) or not _is_unknown(value)
        return self._is_true(value) if known else self._chosen()

    @staticmethod
    def _is_true(value: object) -> bool:
        return isinstance(value, (Outside, Function, Class, Record)) or bool(value)

    def _chosen(self) -> bool:
        """Take a way through a condition that is not known, and keep which it was."""
        way = self.decisions[len(self.taken)] if len(self.taken) < len(self.decisions) else True
        self.taken.append(way)
        return way

    def _assign(self, target: ast.expr, value: object, node: ast.stmt, right: ast.expr, names: dict[str, object]) -> None:
        match target:
            case ast.Name():
                names[target.id] = value
            case ast.Attribute():
                self.seen.add(id(target))
                owner = self.value(target.value, names)
                if isinstance(owner, Record):
                    owner.give(target.attr, self._given(value, self.source(target), node, right))
                    self._keep(owner)
                elif target.attr in LIVES:
                    self._lost(node)
            case ast.Tuple() | ast.List():
                self._unpack(target.elts, value, node, right, names)
            case ast.Subscript():
                self._assign_item(target, value, node, right, names)

    def _unpack(
        self, targets: Sequence[ast.expr], value: object, node: ast.stmt, right: ast.expr, names: dict[str, object]
    ) -> None:
        """Assign the elements of a list, or what is not known where it is none of that length."""
        starred = next((index for index, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
        values: list[object] | None = value if isinstance(value, list) else None
        if values is not None and starred is not None and len(values) >= len(targets) - 1:
            end = len(values) - (len(targets) - starred - 1)
            values = [*values[:starred], values[starred:end], *values[end:]]
        for index, target in enumerate(targets):
            element = values[index] if values is not None and len(values) == len(targets) else self._unknown(right)
            self._assign(target.value if isinstance(target, ast.Starred) else target, element, node, right, names)

    def _lost(self, node: ast.AST) -> None:
        text = self.source(node).partition("\n")[0][:80]
        self.unread.append(f"line {self._line(node)}: `{text}` sets a field of an object that is not known")

    def _assign_item(
        self, target: ast.Subscript, value: object, node: ast.stmt, right: ast.expr, names: dict[str, object]
    ) -> None:
        key = self.value(target.slice, names)
        if _dotted(target.value) in ("os.environ", "environ") and isinstance(key, str):
            start, end = self.span(node)
            kept = value if isinstance(value, (str, Unread)) else str(value)
            span = Span(start, end, *self.span(right)) if self.module is self.main else None
            self.environment[key] = Setting(key, kept, key, self._line(node), span)
            return
        owner = self.value(target.value, names)
        self.seen.add(id(target.slice))
        if isinstance(owner, dict) and isinstance(key, (str, int)):
            owner[key] = value
            if isinstance(owner, Entries) and isinstance(target.slice, ast.Constant):
                owner.places[key] = self._given(value, str(key), node, right)
        elif isinstance(owner, Record) and isinstance(key, str):
            owner.give(key, self._given(value, f"{self.source(target.value)}[{key!r}]", node, right))
            self._keep(owner)

    # Values

    def value(self, node: ast.expr, names: dict[str, object], statement: ast.stmt | None = None) -> Any:
        """Return what is known of an expression: a constant, a list, a dict, a Record, or Unread."""
        try:
            return self._value(node, names, statement)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError):
            return self._unknown(node)

    def _value(self, node: ast.expr, names: dict[str, object], statement: ast.stmt | None) -> Any:
        match node:
            case ast.Constant():
                self.seen.add(id(node))
                return node.value
            case ast.Name():
                return self._resolved(node.id, names) if node.id in names else self._unknown(node)
            case ast.Tuple():
                elements = self._elements(node.elts, names)
                return Fixed(elements) if isinstance(elements, list) else elements
            case ast.List() | ast.Set():
                return self._elements(node.elts, names)
            case ast.Dict():
                return self._dict(node, names)
            case ast.Attribute():
                return self._attribute(node, names)
            case ast.Call():
                return self._call(node, names, statement)
            case ast.Subscript():
                return self._item(node, names)
            case ast.NamedExpr():
                names[node.target.id] = self.value(node.value, names)
                return names[node.target.id]
            case ast.Lambda():
                body = ast.copy_location(ast.Return(node.body), node)
                function = ast.FunctionDef(name="<lambda>", args=node.args, body=[body], decorator_list=[])
                return Function(ast.copy_location(function, node), self.module, names)
            case ast.Yield(value=ast.expr() as given):
                raise _ReturnedError(self.value(given, names))  # what a context manager hands out
            case ast.JoinedStr():
                return self._joined(node, names)
            case ast.FormattedValue():
                return self.value(node.value, names)
        return self._computed(node, names)

    def _computed(self, node: ast.expr, names: dict[str, object]) -> Any:
        """Return the value of an operation."""
        match node:
            case ast.DictComp(generators=[generator]):
                pairs = self._comprehension(
                    ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node), generator, names
                )
                return dict(pairs) if isinstance(pairs, list) else pairs
            case ast.ListComp(generators=[generator]) | ast.GeneratorExp(generators=[generator]):
                return self._comprehension(node.elt, generator, names)
            case ast.BoolOp():
                return self._bool(node, names)
            case ast.UnaryOp(op=ast.Not()):
                operand = self.value(node.operand, names)
                return operand if isinstance(operand, Unread) else not (isinstance(operand, Record) or operand)
            case ast.UnaryOp(op=ast.USub()):
                return -self.value(node.operand, names)
            case ast.IfExp():
                return self.value(node.body if self._decided(node.test, names) else node.orelse, names)
            case ast.Compare(ops=[op], comparators=[right]):
                sides = self.value(node.left, names), self.value(right, names)
                if isinstance(sides[0], (Outside, Function, Class)) and sides[1] is None:
                    return isinstance(op, (ast.IsNot, ast.NotEq))
                if _dotted(right) in _ENVIRONMENTS and isinstance(op, (ast.In, ast.NotIn)):
                    return (self._variable(sides[0]) is not None) == isinstance(op, ast.In)
                unknown = next((side for side in sides if _is_unknown(side)), None)
                return self._unknown(node) if unknown is not None else _COMPARISONS[type(op)](*sides)
            case ast.BinOp():
                return self._arithmetic(type(node.op), self.value(node.left, names), self.value(node.right, names), node)
        return self._unknown(node)

    def _item(self, node: ast.Subscript, names: dict[str, object]) -> Any:
        if _dotted(node.value) in _ENVIRONMENTS:
            return self._variable(self.value(node.slice, names))
        owner, key = self.value(node.value, names), self.value(node.slice, names)
        if _enumeration(node.value, names):
            return Member(key) if isinstance(key, str) else self._unknown(node)
        return owner[key] if isinstance(owner, (list, dict)) and not isinstance(key, Unread) else self._unknown(node)

    def _elements(self, nodes: Sequence[ast.expr], names: dict[str, object]) -> Any:
        elements: list[object] = []
        for node in nodes:
            value = self.value(node.value if isinstance(node, ast.Starred) else node, names)
            if isinstance(value, Unread):
                return value
            elements += value if isinstance(node, ast.Starred) and isinstance(value, list) else [value]
        return elements

    def _dict(self, node: ast.Dict, names: dict[str, object]) -> Any:
        result = Entries()
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node, names)
            if key_node is None:
                result |= value
                continue
            key = self.value(key_node, names)
            result[key] = value
            result.places[key] = self._entry(value, str(key), key_node, value_node)
        return result

    def _attribute(self, node: ast.Attribute, names: dict[str, object]) -> Any:
        if _enumeration(node.value, names):
            return Member(node.attr)
        owner = self.value(node.value, names)
        if isinstance(owner, str) and node.attr in ("name", "value"):
            return owner  # of a member of an enumeration
        if isinstance(owner, Class):
            return owner.record.fields.get(node.attr, self._unknown(node))
        return self._field(owner, node.attr) if isinstance(owner, Record) else self._unknown(node)

    def _field(self, owner: Record, name: str) -> object:
        """Return a field of an object, one that the text does not set as an object that it may set fields of."""
        if name == "__dict__":
            return owner
        if name in owner.fields:
            return owner.fields[name]
        section = self._record("", owner.base)
        section.default = not owner.base
        owner.fields[name] = section
        owner.opened.add(name)
        self._keep(owner)
        return section

    def _bool(self, node: ast.BoolOp, names: dict[str, object]) -> Any:
        value: Any = None
        for operand in node.values:
            value = self.value(operand, names)
            if isinstance(value, Unread):
                return value
            true = isinstance(value, Record) or bool(value)
            if true == isinstance(node.op, ast.Or):
                return value
        return value

    def _arithmetic(self, op: type[ast.operator], left: Any, right: Any, node: ast.AST) -> Any:
        unknown = next((side for side in (left, right) if isinstance(side, (Unread, Record))), None)
        if unknown is not None or op not in _ARITHMETIC:
            return self._unknown(node)
        sizes = [len(side) for side in (left, right) if isinstance(side, (str, list))]
        counts = [side for side in (left, right) if isinstance(side, int)]
        if sizes and counts and max(sizes) * max(counts) > _LONGEST:
            return self._unknown(node)
        if isinstance(left, list) and isinstance(right, list) and op in (ast.Sub, ast.BitOr):  # sets
            return [one for one in left if one not in right] + (right if op is ast.BitOr else [])
        try:
            return _ARITHMETIC[op](left, right)
        except (TypeError, ValueError, ArithmeticError):
            return self._unknown(node)

    def _comprehension(self, element: ast.expr, generator: ast.comprehension, names: dict[str, object]) -> Any:
        source = self.value(generator.iter, names)
        source = list(source) if isinstance(source, dict) else source
        if not isinstance(source, list):
            return self._unknown(element)
        result = []
        for one in source:
            inner = dict(names)
            self._assign(generator.target, one, ast.copy_location(ast.Pass(), element), generator.iter, inner)
            if all(self.value(test, inner) is True for test in generator.ifs):
                result.append(self.value(element, inner))
        return next((one for one in result if isinstance(one, Unread)), result)

    def _joined(self, node: ast.JoinedStr, names: dict[str, object]) -> Any:
        parts = [self.value(part, names) for part in node.values]
        unknown = any(isinstance(part, (Unread, Record)) for part in parts)
        return self._unknown(node) if unknown else "".join(map(str, parts))

    # Calls

    def _call(self, node: ast.Call, names: dict[str, object], statement: ast.stmt | None) -> Any:
        name = _dotted(node.func)
        last = name.rpartition(".")[2]
        if isinstance(node.func, ast.Attribute) and (done := self._method(node, node.func, names)) is not NotImplemented:
            return done
        if last in _HELPERS and node.args:
            return self._helper(node, self.value(node.args[0], names), names)
        function = self._callee(node, names)
        if isinstance(function, Function) and self.depth < _DEEPEST:
            return self._inlined(function, node, names)
        if isinstance(function, Class):
            return self._instantiated(function, node, names)
        if name in (
            "OmegaConf.update",
            "reduce",
            "functools.reduce",
            "partial",
            "functools.partial",
            "hasattr",
            "isinstance",
            "filter",
            "map",
            "vars",
            "asdict",
            "field",
        ):
            return self._special(last, node, names)
        if name in ("os.getenv", "getenv") and node.args:
            return self._variable(*(self.value(argument, names) for argument in node.args))
        known = {
            "setattr": self._setattr,
            "replace": self._replace,
            "deepcopy": self._copy,
            "copy": self._copy,
            "getattr": self._getattr,
        }
        if last in known and node.args:
            return known[last](node, names, statement)
        if last == "dict" and not node.args:
            return self._keywords(node, names)
        if (result := computed(name, [self.value(argument, names) for argument in node.args])) is not NotImplemented:
            return result | self._keywords(node, names) if name == "dict" else result
        if is_quiet(name):
            return self._unknown(node)
        if last[:1].isupper():
            return self._constructed(node, last, names)
        return self._foreign(node, names)

    def _callee(self, node: ast.Call, names: dict[str, object]) -> object:
        """Return the function or class of the file that is called, if it is one."""
        if isinstance(node.func, ast.Name):
            return self._resolved(node.func.id, names) if node.func.id in names else None
        return self.value(node.func, names) if isinstance(node.func, (ast.Subscript, ast.Lambda)) else None

    def _special(self, last: str, node: ast.Call, names: dict[str, object]) -> Any:
        """Carry out functions that take objects apart."""
        arguments = [self.value(argument, names) for argument in node.args]
        match last, arguments:
            case "update", [Record() as owner, str(path), value, *_]:
                *sections, name = path.split(".")
                target = self._below(owner, sections)
                if isinstance(target, Record):
                    target.give(name, self._given(value, path, node, node.args[2]))
                return None
            case "reduce", [_, list(path), Record() as owner] if _dotted(node.args[0]) == "getattr":
                return self._below(owner, path)
            case "partial", [Function() as function, *positional]:
                keywords = Entries(function.keywords) | self._keywords(node, names)
                return function._replace(positional=(*function.positional, *positional), keywords=keywords)
            case "partial", [_] if _dotted(node.args[0]).rpartition(".")[2][:1].isupper():
                record = Record(_dotted(node.args[0]).rpartition(".")[2])
                self._fill(record, node, names)
                return Class(record, {})
            case "hasattr", [Record() as owner, str(name)]:
                known = True if name in owner.fields and name not in owner.opened else self.has(name)
                return self._unknown(node) if known is None else known
            case "isinstance", [value, _] if plain(value) and _dotted(node.args[1]) in _TYPES:
                return isinstance(value, _TYPES[_dotted(node.args[1])])
            case "map" | "filter", [Function() as function, list(values)]:
                results = [self._run(function, [value], {}, self._line(node)) for value in values]
                kept = [value for value, result in zip(values, results, strict=True) if self._is_true(result)]
                return results if last == "map" else kept if all(plain(result) for result in results) else self._unknown(node)
            case "vars", [Record() as owner]:
                return owner
            case "asdict", [Record(base="") as owner]:
                return {name: value for name, value in owner.fields.items() if name not in owner.opened}
            case "field", []:
                given = self._keywords(node, names)
                factory = given.get("default_factory")
                return (
                    self._run(factory, [], {}, self._line(node))
                    if isinstance(factory, Function)
                    else given.get("default", self._unknown(node))
                )
        return self._unknown(node) if last in ("hasattr", "isinstance", "partial") else self._foreign(node, names)

    def _below(self, owner: object, path: Sequence[str]) -> object:
        """Return the object that a path of field names leads to."""
        for name in path:
            owner = self._field(owner, name) if isinstance(owner, Record) else Unread(name)
        return owner

    def _method(self, node: ast.Call, func: ast.Attribute, names: dict[str, object]) -> Any:
        """Carry out the methods of lists, dicts and texts, and of `os.environ`."""
        arguments = [self.value(argument, names) for argument in node.args]
        if _dotted(func.value) in _ENVIRONMENTS and func.attr == "get" and arguments:
            return self._variable(*arguments)
        if _dotted(func.value) in _ENVIRONMENTS and func.attr == "setdefault" and len(arguments) == 2:
            key, value = arguments
            if isinstance(key, str):
                span = Span(*self.span(node), *self.span(node.args[1])) if self.module is self.main else None
                self.environment.setdefault(key, Setting(key, value, key, self._line(node), span))
            return value
        if _dotted(func.value) in _ENVIRONMENTS and func.attr == "update":
            for key, value in Entries().__or__(*arguments or [{}]).items() | self._keywords(node, names).items():
                self.environment[str(key)] = Setting(str(key), value, str(key), self._line(node))
            return None
        owner = self.value(func.value, names)
        method = owner.methods.get(func.attr) if isinstance(owner, (Record, Class)) else None
        if method is not None and method.module is self.main:
            return self._inlined(_bound(owner, method), node, names)
        if isinstance(owner, Record) and func.attr == "update" and len(arguments) <= 1:
            return self._updated(owner, arguments, node, names)
        if isinstance(owner, list) and func.attr in ("append", "extend", "remove", "insert"):
            self._change(owner, func, arguments, names, node)
            return None
        if isinstance(owner, dict) and func.attr == "update":
            owner.update(*arguments, **self._keywords(node, names))
            return None
        if func.attr in _METHODS.get(dict if isinstance(owner, dict) else type(owner), ()):
            result = getattr(owner, func.attr)(*arguments)
            if func.attr in ("items", "keys", "values"):
                return [list(one) if isinstance(one, tuple) else one for one in result]
            return list(result) if isinstance(result, tuple) else result
        return NotImplemented

    def _updated(self, owner: Record, arguments: list[Any], node: ast.Call, names: dict[str, object]) -> Any:
        """Give an object the entries of a dict."""
        entries = {**(arguments[0] if arguments and isinstance(arguments[0], dict) else {}), **self._keywords(node, names)}
        if arguments and not isinstance(arguments[0], dict):
            return NotImplemented
        for name, value in entries.items():
            if isinstance(value, dict) and isinstance(section := self._field(owner, name), Record):
                for inner, one in value.items():
                    section.give(str(inner), Given(one, f"{name}.{inner}", self._line(node), None))
            else:
                owner.give(str(name), Given(value, str(name), self._line(node), None))
        self._keep(owner)
        return None

    def _variable(self, name: object, default: object = None) -> object:
        """Return what the environment has: what the code set, else what the user gave, else nothing."""
        own = self.environment.get(str(name))
        return own.value if own else self.variables.get(str(name), default)

    def _change(
        self, owner: list[object], func: ast.Attribute, arguments: list[Any], names: dict[str, object], node: ast.Call
    ) -> None:
        """Change a list in place; forget it if the element is not known."""
        if not any(isinstance(argument, Unread) for argument in arguments):
            getattr(owner, func.attr)(*arguments)
        elif isinstance(func.value, ast.Attribute) and isinstance(record := self.value(func.value.value, names), Record):
            record.give(func.value.attr, Given(self._unknown(node), self.source(func.value), self._line(node), None))

    def _keywords(self, node: ast.Call, names: dict[str, object]) -> dict[str, object]:
        result = Entries()
        for keyword in node.keywords:
            self.seen.add(id(keyword))
            value = self.value(keyword.value, names)
            if keyword.arg:
                result[keyword.arg] = value
                result.places[keyword.arg] = self._given(value, keyword.arg, keyword, keyword.value)
            elif isinstance(value, dict):
                result |= value
            else:
                text = self.source(keyword.value)[:60]
                self.unread.append(f"line {self._line(node)}: the arguments in `**{text}` were not read")
        return result

    def _inlined(self, function: Function, node: ast.Call, names: dict[str, object]) -> Any:
        positional: list[object] = list(function.positional)
        for argument in node.args:
            value = self.value(argument.value if isinstance(argument, ast.Starred) else argument, names)
            positional += value if isinstance(argument, ast.Starred) and isinstance(value, list) else [value]
        return self._run(function, positional, Entries(function.keywords) | self._keywords(node, names), self._line(node))

    def _run(self, function: Function, positional: Sequence[object], keywords: dict[str, object], line: int) -> Any:
        outer = self.module
        self.module, self.calling = function.module, line
        self.depth += 1
        try:
            inner = self._arguments(function.node, positional, keywords, function.names)
            self._block(function.node.body, inner)
        except _ReturnedError as returned:
            return returned.value
        finally:
            self.depth -= 1
            self.module = outer
        return None

    def _arguments(
        self, function: ast.FunctionDef, positional: Sequence[object], given: dict[str, object] | None, names: dict[str, object]
    ) -> dict[str, object]:
        """Return the names of a function: its arguments, else their defaults, else objects that are not known.

        Args:
            function: Its syntax.
            positional: Positional arguments.
            given: Keyword arguments; None where nothing in the file calls it.
            names: What is bound where it is defined.
        """
        inner = dict(names)
        keywords = given or {}
        args = function.args
        places = [*args.posonlyargs, *args.args]
        defaults: list[ast.expr | None] = [None] * (len(places) - len(args.defaults)) + list(args.defaults)
        both = [*zip(places, defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
        for index, (argument, default) in enumerate(both):
            if index < len(positional) and index < len(places):
                inner[argument.arg] = positional[index]
            elif argument.arg in keywords:
                inner[argument.arg] = keywords[argument.arg]
            elif default is not None:
                inner[argument.arg] = self.value(default, names)
            else:
                inner[argument.arg] = self._argument(function, argument.arg)
        if args.vararg:
            inner[args.vararg.arg] = list(positional[len(places) :])
        if args.kwarg:
            own = {argument.arg for argument, _ in both}
            rest = Entries(keywords)
            for name in own & set(keywords):
                del rest[name]
            called_elsewhere = given is None and function.name.startswith("_")
            inner[args.kwarg.arg] = Unread(f"**{args.kwarg.arg}") if called_elsewhere else rest
        return inner

    def _argument(self, function: ast.FunctionDef, name: str) -> Record:
        """Return an object that a caller gives; the caller of a private function is of the same recipe and sets the rest."""
        record = self._record("self" if name == "self" else "", f"the argument `{name}`")
        if function.name.startswith("_"):
            record.changed_by = f"the caller of {function.name}()"
        return record

    def _setattr(self, node: ast.Call, names: dict[str, object], statement: ast.stmt | None) -> None:
        owner, name, value = (self.value(argument, names) for argument in node.args[:3])
        if isinstance(owner, Record) and isinstance(name, str):
            written = f"{self.source(node.args[0])}.{name}"
            owner.give(name, self._given(value, written, statement or node, node.args[2]))
            self._keep(owner)
        elif isinstance(owner, Record):
            self.unread.append(f"line {self._line(node)}: `{self.source(node)[:80]}` sets a field whose name is not known")
        else:
            self._lost(node)

    def _replace(self, node: ast.Call, names: dict[str, object], _: ast.stmt | None) -> Any:
        owner = self.value(node.args[0], names)
        if not isinstance(owner, Record):
            return self._foreign(node, names)
        record = owner.copied()
        self._fill(record, node, names)
        self._keep(record)
        return record

    def _copy(self, node: ast.Call, names: dict[str, object], _: ast.stmt | None) -> Any:
        owner = self.value(node.args[0], names)
        if isinstance(owner, Record):
            owner = owner.copied()
            self._keep(owner)
        return list(owner) if isinstance(owner, list) else owner.copy() if isinstance(owner, dict) else owner

    def _getattr(self, node: ast.Call, names: dict[str, object], _: ast.stmt | None) -> Any:
        owner, name = self.value(node.args[0], names), self.value(node.args[1], names)
        if isinstance(name, str) and _enumeration(node.args[0], names):
            return Member(name)
        if isinstance(owner, Record) and isinstance(name, str) and (len(node.args) == 2 or name in owner.fields):
            return self._field(owner, name)
        absent = isinstance(owner, Record) and isinstance(name, str) and self.has(name) is False
        return self.value(node.args[2], names) if absent else self._unknown(node)

    def _constructed(self, node: ast.Call, kind: str, names: dict[str, object]) -> Record:
        for argument in node.args:
            self.value(argument, names)
        record = self._record(kind, "")
        self._fill(record, node, names)
        return record

    def _instantiated(self, kind: Class, node: ast.Call, names: dict[str, object]) -> Record:
        """Make an object of a class of the file: with its defaults, and by its `__init__` if it has one."""
        record = kind.record.copied()
        self._keep(record)
        if any(method.module is not self.main for method in kind.methods.values()):
            self._fill(record, node, names)
            record.base = record.base or f"{_dotted(node.func)}()"
            return record
        if "__init__" in kind.methods:
            self._inlined(_bound(record, kind.methods["__init__"]), node, names)
            return record
        self._fill(record, node, names)
        if "__post_init__" in kind.methods:
            self._run(kind.methods["__post_init__"], [record], {}, self._line(node))
        return record

    def _fill(self, record: Record, node: ast.Call, names: dict[str, object]) -> None:
        for keyword in node.keywords:
            self.seen.add(id(keyword))
            value = self.value(keyword.value, names)
            if keyword.arg:
                record.give(keyword.arg, self._given(value, keyword.arg, keyword, keyword.value))
            elif isinstance(value, dict):
                places = value.places if isinstance(value, Entries) else {}
                for name, one in value.items():
                    record.give(str(name), places.get(name) or Given(one, str(name), self._line(node), None))
            else:
                record.base = record.base or f"`**{self.source(keyword.value)[:60]}`"
                self.unread.append(
                    f"line {self._line(node)}: the arguments in `**{self.source(keyword.value)[:60]}` were not read"
                )

    def _foreign(self, node: ast.Call, names: dict[str, object]) -> Any:
        """Take the result of code that is not read as an object that it may have given any field."""
        name = f"{_dotted(node.func) or self.source(node.func)[:60]}()"
        values = [self.value(argument, names) for argument in node.args]
        values += [self.value(keyword.value, names) for keyword in node.keywords]
        for keyword in node.keywords:
            self.seen.add(id(keyword))
        for value in values:
            if isinstance(value, Record):
                value.changed_by = name
        return self._record("", name)

    def _helper(self, node: ast.Call, record: object, names: dict[str, object]) -> None:
        """Carry out Bridge's own helpers, which choose the spelling of the installed release."""
        if not isinstance(record, Record):
            return
        name = _dotted(node.func).rpartition(".")[2]
        value = self.value(node.args[1], names) if len(node.args) > 1 else []
        span = Span(*self.span(node)) if self.module is self.main else None
        field = "cuda_graph_impl" if name == "set_full_iteration_cuda_graph" else "cuda_graph_modules"
        record.give(field, Given("full_iteration" if field == "cuda_graph_impl" else value, name, self._line(node), span))
        if "cuda_graph_scope" in record.fields:
            record.give("cuda_graph_scope", Given(None, name, self._line(node), None))
        self._keep(record)

    # Places

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


def _dotted(node: ast.expr) -> str:
    """Spell a name with its attributes, or return an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    owner = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{owner}.{node.attr}" if owner and isinstance(node, ast.Attribute) else ""


def _enumeration(node: ast.expr, names: dict[str, object]) -> bool:
    """Return whether an expression names an enumeration of captured modules, also under another name."""
    bound = names.get(node.id) if isinstance(node, ast.Name) else None
    name = bound.name if isinstance(bound, Imported) else bound.text if isinstance(bound, Outside) else _dotted(node)
    return name.rpartition(".")[2] in _ENUMS


def _is_harmless(body: Sequence[ast.stmt]) -> bool:
    """Return whether statements change no configuration: they raise, print, or say something."""
    for node in body:
        quiet = isinstance(node, ast.Expr) and (
            isinstance(node.value, ast.Constant) or (isinstance(node.value, ast.Call) and is_quiet(_dotted(node.value.func)))
        )
        if not quiet and not isinstance(node, (ast.Raise, ast.Pass, ast.Assert)):
            return False
    return True


def _bound(owner: object, function: Function) -> Function:
    """Return a method with the object that it is called on."""
    decorators = {_dotted(one) for one in function.node.decorator_list}
    return function if "staticmethod" in decorators else function._replace(positional=(owner,))


def _loaded(node: ast.expr) -> ast.expr:
    """Return the target of `+=` as a value to read."""
    copied = copy.copy(node)
    if isinstance(copied, (ast.Name, ast.Attribute, ast.Subscript)):
        copied.ctx = ast.Load()
    return copied


def _is_unknown(value: object) -> bool:
    """Return whether nothing is known of a value: it was not read, or is a field of an object that was not."""
    return isinstance(value, Unread) or (isinstance(value, Record) and (value.default or bool(value.base)) and not value.given)
