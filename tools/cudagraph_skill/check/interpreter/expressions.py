"""Evaluate expressions: what each kind of node in `ast` gives."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.assignment import bind
from cudagraph_skill.check.interpreter.attributes import Later, Super, attribute
from cudagraph_skill.check.interpreter.branches import decide
from cudagraph_skill.check.interpreter.comparisons import compare
from cudagraph_skill.check.interpreter.comprehensions import comprehension
from cudagraph_skill.check.interpreter.definitions import defaults
from cudagraph_skill.check.interpreter.items import item_at, items_of, key_of, sample_item
from cudagraph_skill.check.interpreter.iteration import iterate
from cudagraph_skill.check.interpreter.operators import binary, unary
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.truth import holds, truth_of
from cudagraph_skill.check.interpreter.unfollowed import note_unfollowed
from cudagraph_skill.check.interpreter.values import (
    Array,
    Bound,
    Choice,
    Function,
    Host,
    Instance,
    Mapping,
    Object,
    Scope,
    Sequence,
    Tensor,
    Value,
    const,
    joined,
    origins_of,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_LONGEST = 4000  # characters of a text that are kept
_UNMARKED = (Tensor, Function, Instance, Bound, Object)  # carry no marks into GPU work

# Names, attributes, items ---------------------------------------------------------------------------------------------


def _constant(_: Machine, node: ast.Constant) -> Value:
    return const(node.value)


def _name(machine: Machine, node: ast.Name) -> Value:
    scope: Scope | None = machine.frame.scope
    name = node.id
    if scope is not None and name in scope.declared:
        scope = scope.declared[name]
    while scope is not None and name not in scope.slots:
        scope = scope.outer
    if scope is None:
        return machine.library.builtin(name)
    value = machine.read(scope, name, scope.slots[name], node)
    if isinstance(value, Later):
        value = value.resolve(machine)
    # Marked where it is read: the parameter itself may be passed on to code that ignores it.
    if name in scope.varying:
        message = f"the argument `{name}` differs from call to call; the graph keeps the value that it has at capture"
        value = value.marked(machine.origin("CG103", node, message))
    return value


def _attribute(machine: Machine, node: ast.Attribute) -> Value:
    return attribute(machine, machine.value(node.value), node.attr, node)


def _subscript(machine: Machine, node: ast.Subscript) -> Value:
    owner = machine.value(node.value)
    index = machine.value(node.slice)
    return item_at(machine, owner, index, node)


def _slice(machine: Machine, node: ast.Slice) -> Value:
    return Sequence("slice", [machine.value(bound) for bound in (node.lower, node.upper, node.step)], machine.round)


# Operators ------------------------------------------------------------------------------------------------------------


def _binary(machine: Machine, node: ast.BinOp) -> Value:
    left, right = machine.value(node.left), machine.value(node.right)
    return binary(machine, type(node.op), left, right, node)


def _unary(machine: Machine, node: ast.UnaryOp) -> Value:
    if not isinstance(node.op, ast.Not):
        return unary(machine, node.op, machine.value(node.operand), node)
    truth, origins = holds(machine, node.operand)
    return Host("bool", sym=mix("not", id(node)), origins=origins) if truth is None else const(not truth, origins)


def _compare(machine: Machine, node: ast.Compare) -> Value:
    left = machine.value(node.left)
    results = []
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = machine.value(comparator)
        results.append(compare(machine, op, left, right, node))
        left = right
    if len(results) == 1:
        return results[0]
    # `a < b < c` is `a < b and b < c`: every result but the last is asked for its truth.
    if any(isinstance(result, Tensor) and result.on_gpu for result in results[:-1]):
        machine.report("CG202", node, f"{quoted(node)} chains comparisons, which needs the truth of a GPU tensor")
        return results[-1]
    if all(isinstance(result, Host) and result.known for result in results):
        return const(all(isinstance(result, Host) and result.value for result in results), origins_of(results))
    return Host("bool", sym=mix("chain", *(result.sym for result in results)), origins=origins_of(results))


def _bool_op(machine: Machine, node: ast.BoolOp) -> Value:
    decisive = isinstance(node.op, ast.Or)  # the truth of an operand that ends the evaluation
    results: list[Value] = []
    *earlier, last = node.values
    for operand in earlier:
        value = machine.value(operand)
        truth, origins = truth_of(machine, value, operand)
        if truth is decisive:
            return _ended(machine, results, value)
        if truth is None:
            results.append(value.marked(origins))
    value = machine.value(last)
    if isinstance(value, Host) and value.known and bool(value.value) is decisive:
        return _ended(machine, results, value)
    return joined([*results, value], machine.round) or Value()


def _ended(machine: Machine, earlier: list[Value], value: Value) -> Value:
    """Return what an operand that decides alone makes of `earlier or value`: of operands that are not known, one like it."""
    if (
        isinstance(value, Host)
        and isinstance(value.value, bool)
        and all(isinstance(other, Host) or type(other) is Value for other in earlier)
    ):
        return value.marked(origins_of(earlier))
    return joined([*earlier, value], machine.round) or Value()


def _if_exp(machine: Machine, node: ast.IfExp) -> Value:
    truth, origins = holds(machine, node.test)
    if truth is not None and not origins:
        return machine.value(node.body if truth else node.orelse)
    results: list[Value] = []

    def evaluates(branch: ast.expr) -> Callable[[], int]:
        def evaluate() -> int:
            results.append(machine.value(branch))
            return 0

        return evaluate

    decide(machine, truth, origins, evaluates(node.body), evaluates(node.orelse), node.test)
    if truth is None:
        result = joined(results, machine.round) or Value()
        frozen = bool(origins) and not isinstance(result, (Host, Array))
    else:
        result = results[-1]  # the branch that is taken runs last
        frozen = any(isinstance(value, _UNMARKED) for value in results)
    if frozen:
        machine.emit(origins)
    return result.marked(origins)


def _walrus(machine: Machine, node: ast.NamedExpr) -> Value:
    value = machine.value(node.value)
    bind(machine, node.target.id, value, node)
    return value


# Calls and functions --------------------------------------------------------------------------------------------------


def _call(machine: Machine, node: ast.Call) -> Value:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        frame = machine.frame  # the compiler gives a bare `super()` the class and the first argument
        if frame.cls is not None and frame.receiver is not None:
            return Super(frame.cls, frame.receiver)
    function = machine.value(node.func)
    args: list[Value] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            spread = machine.value(arg.value)
            items = items_of(machine, spread, arg)
            # Of unknown length: one argument stands for them, so that the callee sees what kind they are.
            args += items if items is not None else [sample_item(machine, spread, arg)]
        else:
            args.append(machine.value(arg))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = machine.value(keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        else:
            kwargs |= _spread(value)
    note_unfollowed(machine, function, node.func)
    return machine.call(function, args, kwargs, node)


def _spread(value: Value) -> dict[str, Value]:
    """Return the keywords that `**value` gives: those of one alternative only may be there or not, so nothing is known of them."""
    options = [option for option in (value.options if isinstance(value, Choice) else [value]) if isinstance(option, Mapping)]
    names = {key for option in options for key in option.slots if isinstance(key, str)}
    if len(options) == 1:
        return {name: options[0].slots[name] for name in names}
    return {name: Value() for name in names}


def _lambda(machine: Machine, node: ast.Lambda) -> Value:
    function = Function(node, machine.frame.scope.visible(), machine.frame.module, "<lambda>")
    function.defaults = defaults(machine, node.args)
    function.owner = machine.frame.cls
    machine.created.setdefault(node, []).append(function)
    return function


def _inner(machine: Machine, node: ast.Starred | ast.Await) -> Value:
    return machine.value(node.value)


def _yield(machine: Machine, node: ast.Yield) -> Value:
    value = machine.value(node.value)
    if machine.frame.on_yield is not None:
        machine.frame.on_yield(value)
    return Value()


def _yield_from(machine: Machine, node: ast.YieldFrom) -> Value:
    source = machine.value(node.value)
    yielded = machine.frame.on_yield
    if yielded is not None:
        iterate(machine, source, node.value, yielded)
    return Value()


# Containers and text --------------------------------------------------------------------------------------------------


def _list(machine: Machine, node: ast.List | ast.Tuple | ast.Set) -> Value:
    kind = {ast.List: "list", ast.Tuple: "tuple", ast.Set: "set"}[type(node)]
    items: list[Value] = []
    for element in node.elts:
        if not isinstance(element, ast.Starred):
            items.append(machine.value(element))
            continue
        spread = machine.value(element.value)
        known = items_of(machine, spread, element)
        if known is None:
            rest = joined([*items, sample_item(machine, spread, element)], machine.round)
            return Sequence(kind, None, machine.round, rest)
        items += known
    return Sequence(kind, items, machine.round)


def _dict(machine: Machine, node: ast.Dict) -> Value:
    made = Mapping(machine.round)
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = machine.value(value_node)
        key = None if key_node is None else key_of(machine.value(key_node))
        if key_node is None:
            _spread_into(made, value)
        elif key is None:
            made.rest = joined([*([made.rest] if made.rest is not None else []), value], machine.round)
        else:
            made.slots[key] = value
    return made


def _spread_into(made: Mapping, value: Value) -> None:
    """Put `**value` into a dict."""
    if not isinstance(value, Mapping):
        made.rest = Value()  # any key may be there
        return
    made.slots.update(value.slots)
    made.rest = value.rest if made.rest is None else made.rest


def _formatted_string(machine: Machine, node: ast.JoinedStr) -> Value:
    parts: list[Value] = []
    plain = True  # the text is its parts, one after the other
    for piece in node.values:
        if not isinstance(piece, ast.FormattedValue):
            parts.append(machine.value(piece))
            continue
        value = machine.value(piece.value)
        parts.append(value)
        # A width or precision may itself be an expression that reads a tensor.
        if piece.format_spec is not None:
            machine.value(piece.format_spec)
        plain = plain and piece.format_spec is None and piece.conversion == -1
        machine.library.read_text(machine, value, piece.value)
    if plain and all(isinstance(part, Host) and part.known for part in parts):
        text = "".join(str(part.value) for part in parts if isinstance(part, Host))
        return const(text[:_LONGEST], origins_of(parts))
    return Host("str", sym=mix("text", *(part.sym for part in parts)), origins=origins_of(parts))


EXPRESSIONS: dict[type, Callable[[Machine, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _bool_op,
    ast.IfExp: _if_exp,
    ast.Call: _call,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Set: _list,
    ast.Dict: _dict,
    ast.ListComp: comprehension,
    ast.SetComp: comprehension,
    ast.GeneratorExp: comprehension,
    ast.DictComp: comprehension,
    ast.JoinedStr: _formatted_string,
    ast.NamedExpr: _walrus,
    ast.Lambda: _lambda,
    ast.Slice: _slice,
    ast.Starred: _inner,
    ast.Await: _inner,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}
