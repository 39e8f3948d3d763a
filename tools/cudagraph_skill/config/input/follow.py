"""Follow the statements of a Python file on what is known of its values, without running it."""

from __future__ import annotations

import ast
import copy
import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cudagraph_skill.config.input.module import Function, Imported, Module
from cudagraph_skill.config.input.record import Given, Record
from cudagraph_skill.config.settings import Member, Setting, Span, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MOST_STEPS = 50_000
_DEEPEST = 12  # calls of functions of the file
_LONGEST = 10_000  # elements of a list
_ENUMS = ("CudaGraphScope", "CudaGraphModule", "InferenceCudaGraphScope")
_HELPERS = ("set_full_iteration_cuda_graph", "set_cuda_graph_modules", "clear_cuda_graph_modules")
_METHODS: dict[type, tuple[str, ...]] = {
    dict: ("items", "keys", "values", "get", "pop", "copy", "setdefault"),
    list: ("copy", "index", "count"),
    str: ("split", "lower", "upper", "strip", "replace"),
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
        taken: The ways that were taken.
        records: Every record that was made or was given a field.
        environment: Variables that the code sets in `os.environ`.
        seen: Identities of the nodes that were on the path.
        unread: What was not followed.
    """

    def __init__(self, module: Module, decisions: Sequence[bool], variables: Mapping[str, str]) -> None:
        self.variables = variables
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
            self._block(root.body, self._arguments(root, [], {}, names))

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
            case ast.If():
                self._block(node.body if self._decided(node.test, names) else node.orelse, names)
            case ast.For():
                self._loop(node, names)
            case ast.With():
                self._block(node.body, names)
            case ast.Try():
                self._block([*node.body, *node.orelse, *node.finalbody], names)
            case ast.FunctionDef():
                names[node.name] = Function(node, self.module)
            case ast.ImportFrom():
                self._import(node, names)
            case ast.ClassDef():
                self._class(node, names)
            case ast.Delete() | ast.While() | ast.Match():
                self._skip(node)
            case _:
                pass

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
            return Unread(name)
        if module.names is None:
            module.names = {}
            outer, kept = self.module, list(self.records)
            self.module = module
            with suppress(_ReturnedError):
                self._block(module.tree.body, module.names)
            self.module, self.records = outer, kept
        return module.names.get(imported.name, Unread(name))

    def _skip(self, node: ast.stmt) -> None:
        text = self.source(node)
        if "cuda_graph" in text or "rng_tracker" in text:
            self.unread.append(f"line {self._line(node)}: `{text.splitlines()[0][:80]}` was not followed")

    def _class(self, node: ast.ClassDef, names: dict[str, object]) -> None:
        """Take the fields that a class gives a default as those of an object of it."""
        bases = [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases]
        record = self._record(bases[0] if bases else node.name, "")
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
        if not isinstance(elements, list):
            self._skip(node)
            return
        for element in elements:
            self._assign(node.target, element, node, node.iter, names)
            self._block(node.body, names)

    def _decided(self, test: ast.expr, names: dict[str, object]) -> bool:
        value = self.value(test, names)
        if not _is_unknown(value):
            return bool(value) or isinstance(value, Record)
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
            case ast.Tuple() | ast.List():
                values = value if isinstance(value, list) and len(value) == len(target.elts) else None
                for index, element in enumerate(target.elts):
                    self._assign(element, values[index] if values else self._unknown(right), node, right, names)
            case ast.Subscript():
                self._assign_item(target, value, node, right, names)

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
            case ast.List() | ast.Tuple() | ast.Set():
                return self._elements(node.elts, names)
            case ast.Dict():
                return self._dict(node, names)
            case ast.Attribute():
                return self._attribute(node, names)
            case ast.Call():
                return self._call(node, names, statement)
            case ast.Subscript():
                return self._item(node, names)
            case ast.ListComp(generators=[generator]) | ast.GeneratorExp(generators=[generator]):
                return self._comprehension(node.elt, generator, names)
            case ast.JoinedStr():
                return self._joined(node, names)
            case ast.FormattedValue():
                return self.value(node.value, names)
        return self._computed(node, names)

    def _computed(self, node: ast.expr, names: dict[str, object]) -> Any:
        """Return the value of an operation."""
        match node:
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
                unknown = next((side for side in sides if _is_unknown(side)), None)
                return self._unknown(node) if unknown is not None else _COMPARISONS[type(op)](*sides)
            case ast.BinOp():
                return self._arithmetic(type(node.op), self.value(node.left, names), self.value(node.right, names), node)
        return self._unknown(node)

    def _item(self, node: ast.Subscript, names: dict[str, object]) -> Any:
        owner, key = self.value(node.value, names), self.value(node.slice, names)
        if isinstance(node.value, ast.Name) and node.value.id in _ENUMS:
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
        result: dict[object, object] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node, names)
            if key_node is None:
                result |= value
            else:
                result[self.value(key_node, names)] = value
        return result

    def _attribute(self, node: ast.Attribute, names: dict[str, object]) -> Any:
        if isinstance(node.value, (ast.Name, ast.Attribute)) and _dotted(node.value).rpartition(".")[2] in _ENUMS:
            return Member(node.attr)
        owner = self.value(node.value, names)
        if not isinstance(owner, Record):
            return self._unknown(node)
        if node.attr in owner.fields:
            return owner.fields[node.attr]
        section = self._record("", owner.base)
        section.default = not owner.base
        owner.fields[node.attr] = section
        owner.opened.add(node.attr)
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
        return _ARITHMETIC[op](left, right)

    def _comprehension(self, element: ast.expr, generator: ast.comprehension, names: dict[str, object]) -> Any:
        source = self.value(generator.iter, names)
        if not isinstance(source, list) or not isinstance(generator.target, ast.Name):
            return self._unknown(element)
        result = []
        for one in source:
            inner = names | {generator.target.id: one}
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
        function = self._resolved(name, names) if name in names and not last[:1].isupper() else None
        if isinstance(function, Function) and self.depth < _DEEPEST:
            return self._inlined(function, node, names)
        known = {
            "setattr": self._setattr,
            "replace": self._replace,
            "deepcopy": self._copy,
            "copy": self._copy,
            "getattr": self._getattr,
        }
        if last in known and node.args:
            return known[last](node, names, statement)
        if last in ("list", "tuple", "sorted") and len(node.args) == 1:
            return self.value(node.args[0], names)
        if last == "dict":
            return self._keywords(node, names)
        if last[:1].isupper():
            return self._constructed(node, last, names)
        return self._foreign(node, names)

    def _method(self, node: ast.Call, func: ast.Attribute, names: dict[str, object]) -> Any:
        """Carry out the methods of lists, dicts and texts, and of `os.environ`."""
        arguments = [self.value(argument, names) for argument in node.args]
        if _dotted(func.value) in ("os.environ", "environ") and func.attr == "get" and arguments:
            return self._variable(*arguments)
        if _dotted(func.value) in ("os.environ", "environ") and func.attr == "setdefault" and len(arguments) == 2:
            key, value = arguments
            if isinstance(key, str):
                self.environment.setdefault(key, Setting(key, value, key, self._line(node)))
            return value
        owner = self.value(func.value, names) if not isinstance(func.value, ast.Call) else None
        if isinstance(owner, list) and func.attr in ("append", "extend", "remove", "insert"):
            self._change(owner, func, arguments, names, node)
            return None
        if isinstance(owner, dict) and func.attr == "update":
            owner.update(*arguments, **self._keywords(node, names))
            return None
        if func.attr in _METHODS.get(type(owner), ()):
            result = getattr(owner, func.attr)(*arguments)
            return (
                [list(one) if isinstance(one, tuple) else one for one in result]
                if func.attr in ("items", "keys", "values")
                else result
            )
        return NotImplemented

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
        result: dict[str, object] = {}
        for keyword in node.keywords:
            self.seen.add(id(keyword))
            value = self.value(keyword.value, names)
            if keyword.arg:
                result[keyword.arg] = value
            elif isinstance(value, dict):
                result |= value
        return result

    def _inlined(self, function: Function, node: ast.Call, names: dict[str, object]) -> Any:
        positional = [self.value(argument, names) for argument in node.args]
        keywords = self._keywords(node, names)
        outer, line = self.module, self._line(node)
        self.module, self.calling = function.module, line
        self.depth += 1
        try:
            inner = self._arguments(function.node, positional, keywords, function.module.names or names)
            self._block(function.node.body, inner)
        except _ReturnedError as returned:
            return returned.value
        finally:
            self.depth -= 1
            self.module = outer
        return None

    def _arguments(
        self, function: ast.FunctionDef, positional: Sequence[object], keywords: dict[str, object], names: dict[str, object]
    ) -> dict[str, object]:
        """Return the names of a function: its arguments, else their defaults, else objects that are not known."""
        inner = dict(names)
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
        if args.kwarg:
            inner[args.kwarg.arg] = Unread(f"**{args.kwarg.arg}")
        return inner

    def _argument(self, function: ast.FunctionDef, name: str) -> Record:
        """Return an object that a caller gives; the caller of a private function is of the same recipe and sets the rest."""
        record = self._record("", f"the argument `{name}`")
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
        return list(owner) if isinstance(owner, list) else dict(owner) if isinstance(owner, dict) else owner

    def _getattr(self, node: ast.Call, names: dict[str, object], _: ast.stmt | None) -> Any:
        owner, name = self.value(node.args[0], names), self.value(node.args[1], names)
        if isinstance(owner, Record) and name in owner.fields:
            return owner.fields[name]
        return self._unknown(node)

    def _constructed(self, node: ast.Call, kind: str, names: dict[str, object]) -> Record:
        for argument in node.args:
            self.value(argument, names)
        record = self._record(kind, "")
        self._fill(record, node, names)
        return record

    def _fill(self, record: Record, node: ast.Call, names: dict[str, object]) -> None:
        for keyword in node.keywords:
            self.seen.add(id(keyword))
            value = self.value(keyword.value, names)
            if keyword.arg:
                record.give(keyword.arg, self._given(value, keyword.arg, keyword, keyword.value))
            elif isinstance(value, dict):
                for name, one in value.items():
                    record.give(str(name), Given(one, str(name), self._line(node), None))
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


def _loaded(node: ast.expr) -> ast.expr:
    """Return the target of `+=` as a value to read."""
    copied = copy.copy(node)
    if isinstance(copied, (ast.Name, ast.Attribute, ast.Subscript)):
        copied.ctx = ast.Load()
    return copied


def _is_unknown(value: object) -> bool:
    """Return whether nothing is known of a value: it was not read, or is a field of an object that was not."""
    return isinstance(value, Unread) or (isinstance(value, Record) and (value.default or bool(value.base)) and not value.given)
