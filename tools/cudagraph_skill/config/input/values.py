"""Values of expressions, and what assigning them changes."""

from __future__ import annotations

import ast
import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cudagraph_skill.config.input.execution import ENVIRONMENTS, Execution, ReturnedError, dotted, is_unknown
from cudagraph_skill.config.input.module import Function, Imported
from cudagraph_skill.config.input.record import Class, Entries, Record
from cudagraph_skill.config.options import LIVES
from cudagraph_skill.config.settings import Fixed, Member, Outside, Setting, Span, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LONGEST = 10_000  # elements of a list
_ENUMS = ("CudaGraphScope", "CudaGraphModule", "InferenceCudaGraphScope")
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


class Values(Execution):
    """Evaluates expressions on what is known."""

    def _call(self, node: ast.Call, names: dict[str, object], statement: ast.stmt | None) -> Any:
        """Return what a call returns."""
        raise NotImplementedError

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
            with suppress(ReturnedError):
                self._block(module.tree.body, module.names)
            self.module, self.records = outer, kept
        return module.names.get(imported.name, Outside(name))

    def _decided(self, test: ast.expr, names: dict[str, object]) -> bool:
        value = self.value(test, names)
        known = isinstance(value, (Outside, Function, Class)) or not is_unknown(value)
        return self._is_true(value) if known else self._chosen()

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

    def _assign_item(
        self, target: ast.Subscript, value: object, node: ast.stmt, right: ast.expr, names: dict[str, object]
    ) -> None:
        key = self.value(target.slice, names)
        if dotted(target.value) in ("os.environ", "environ") and isinstance(key, str):
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
                raise ReturnedError(self.value(given, names))  # what a context manager hands out
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
                if dotted(right) in ENVIRONMENTS and isinstance(op, (ast.In, ast.NotIn)):
                    return (self._variable(sides[0]) is not None) == isinstance(op, ast.In)
                unknown = next((side for side in sides if is_unknown(side)), None)
                return self._unknown(node) if unknown is not None else _COMPARISONS[type(op)](*sides)
            case ast.BinOp():
                return self._arithmetic(type(node.op), self.value(node.left, names), self.value(node.right, names), node)
        return self._unknown(node)

    def _item(self, node: ast.Subscript, names: dict[str, object]) -> Any:
        if dotted(node.value) in ENVIRONMENTS:
            return self._variable(self.value(node.slice, names))
        owner, key = self.value(node.value, names), self.value(node.slice, names)
        if is_enumeration(node.value, names):
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
        if is_enumeration(node.value, names):
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


def is_enumeration(node: ast.expr, names: dict[str, object]) -> bool:
    """Return whether an expression names an enumeration of captured modules, also under another name."""
    bound = names.get(node.id) if isinstance(node, ast.Name) else None
    name = bound.name if isinstance(bound, Imported) else bound.text if isinstance(bound, Outside) else dotted(node)
    return name.rpartition(".")[2] in _ENUMS
