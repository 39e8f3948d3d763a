"""Calls: functions, methods and classes of the file, those of Python that are known, and all others."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from cudagraph_skill.config.input.builtin import computed, is_quiet, plain
from cudagraph_skill.config.input.execution import ENVIRONMENTS, ReturnedError, dotted
from cudagraph_skill.config.input.module import Function
from cudagraph_skill.config.input.record import Class, Entries, Given, Record
from cudagraph_skill.config.input.values import Values, is_enumeration
from cudagraph_skill.config.settings import Member, Setting, Span, Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEEPEST = 12  # calls of functions of the file
_TYPES: dict[str, type] = {"bool": bool, "dict": dict, "float": float, "int": int, "list": list, "str": str}
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


class Calls(Values):
    """Follows calls."""

    def _call(self, node: ast.Call, names: dict[str, object], statement: ast.stmt | None) -> Any:
        name = dotted(node.func)
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
            case "reduce", [_, list(path), Record() as owner] if dotted(node.args[0]) == "getattr":
                return self._below(owner, path)
            case "partial", [Function() as function, *positional]:
                keywords = Entries(function.keywords) | self._keywords(node, names)
                return function._replace(positional=(*function.positional, *positional), keywords=keywords)
            case "partial", [_] if dotted(node.args[0]).rpartition(".")[2][:1].isupper():
                record = Record(dotted(node.args[0]).rpartition(".")[2])
                self._fill(record, node, names)
                return Class(record, {})
            case "hasattr", [Record() as owner, str(name)]:
                known = True if name in owner.fields and name not in owner.opened else self.has(name)
                return self._unknown(node) if known is None else known
            case "isinstance", [value, _] if plain(value) and dotted(node.args[1]) in _TYPES:
                return isinstance(value, _TYPES[dotted(node.args[1])])
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
        if dotted(func.value) in ENVIRONMENTS and func.attr == "get" and arguments:
            return self._variable(*arguments)
        if dotted(func.value) in ENVIRONMENTS and func.attr == "setdefault" and len(arguments) == 2:
            key, value = arguments
            if isinstance(key, str):
                span = Span(*self.span(node), *self.span(node.args[1])) if self.module is self.main else None
                self.environment.setdefault(key, Setting(key, value, key, self._line(node), span))
            return value
        if dotted(func.value) in ENVIRONMENTS and func.attr == "update":
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
        except ReturnedError as returned:
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
        if isinstance(name, str) and is_enumeration(node.args[0], names):
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
            record.base = record.base or f"{dotted(node.func)}()"
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
        name = f"{dotted(node.func) or self.source(node.func)[:60]}()"
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
        name = dotted(node.func).rpartition(".")[2]
        value = self.value(node.args[1], names) if len(node.args) > 1 else []
        span = Span(*self.span(node)) if self.module is self.main else None
        field = "cuda_graph_impl" if name == "set_full_iteration_cuda_graph" else "cuda_graph_modules"
        record.give(field, Given("full_iteration" if field == "cuda_graph_impl" else value, name, self._line(node), span))
        if "cuda_graph_scope" in record.fields:
            record.give("cuda_graph_scope", Given(None, name, self._line(node), None))
        self._keep(record)


def _bound(owner: object, function: Function) -> Function:
    """Return a method with the object that it is called on."""
    decorators = {dotted(one) for one in function.node.decorator_list}
    return function if "staticmethod" in decorators else function._replace(positional=(owner,))
