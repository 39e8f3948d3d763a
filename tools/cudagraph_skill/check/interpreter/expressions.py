"""TODO."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter.assignment import assign, bind
from cudagraph_skill.check.interpreter.attributes import Later, Super, attribute
from cudagraph_skill.check.interpreter.branches import decide
from cudagraph_skill.check.interpreter.comparisons import compare
from cudagraph_skill.check.interpreter.definitions import defaults
from cudagraph_skill.check.interpreter.items import item_at, items_of, key_of, sample_item
from cudagraph_skill.check.interpreter.iteration import iterate
from cudagraph_skill.check.interpreter.operators import binary, unary
from cudagraph_skill.check.interpreter.truth import holds, truth_of
from cudagraph_skill.check.interpreter.values import (
    Array,
    Bound,
    Function,
    Host,
    Instance,
    Mapping,
    Object,
    Origins,
    Scope,
    Sequence,
    Tensor,
    Value,
    const,
    joined,
    mix,
    origins_of,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine


def _constant(_: Machine, node: ast.Constant) -> Value:
    return const(node.value)


def _name(machine: Machine, node: ast.Name) -> Value:
    scope: Scope | None = machine.frame.scope
    name = node.id
    if scope is not None and name in scope.declared:
        scope = scope.declared[name]
    while scope is not None:
        if name in scope.slots:
            found = machine.read(scope, name, scope.slots[name], node)
            if isinstance(found, Later):
                found = found.resolve(machine)
            if name in scope.varying:
                message = f"the argument `{name}` differs from call to call; the graph keeps the value that it has at capture"
                found = found.marked(machine.origin("CG103", node, message))
            return found
        scope = scope.outer
    return machine.library.builtin(name)


def _attribute(machine: Machine, node: ast.Attribute) -> Value:
    return attribute(machine, machine.value(node.value), node.attr, node)


def _subscript(machine: Machine, node: ast.Subscript) -> Value:
    owner = machine.value(node.value)
    index = machine.value(node.slice)
    return item_at(machine, owner, index, node)


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
    for result in results[:-1]:
        if isinstance(result, Tensor) and result.on_gpu:
            machine.report("CG202", node, f"{quoted(node)} chains comparisons, which needs the truth of a GPU tensor")
            return results[-1]
    return Host("bool", sym=mix("chain", *(each.sym for each in results)), origins=origins_of(results))


def _bool_op(machine: Machine, node: ast.BoolOp) -> Value:
    decides = isinstance(node.op, ast.Or)
    possible: list[Value] = []
    for place, operand in enumerate(node.values):
        found = machine.value(operand)
        if place == len(node.values) - 1:
            possible.append(found)
            break
        known, origins = truth_of(machine, found, operand)
        if known is decides:
            possible.append(found)
            break
        if known is None:
            possible.append(found.marked(origins))
    return joined(possible, machine.round) or Value()


def _if_exp(machine: Machine, node: ast.IfExp) -> Value:
    known, origins = holds(machine, node.test)
    if known is not None and not origins:
        return machine.value(node.body if known else node.orelse)
    results: list[Value] = []

    def one(branch: ast.expr) -> Callable[[], int]:
        def ran() -> int:
            results.append(machine.value(branch))
            return 0

        return ran

    decide(machine, known, origins, one(node.body), one(node.orelse), node.test)
    if known is not None and origins:
        if any(isinstance(each, (Tensor, Function, Instance, Bound, Object)) for each in results):
            machine.emit(origins)
        return results[-1].marked(origins)
    found = joined(results, machine.round) or Value()
    if origins and not isinstance(found, (Host, Array)):
        machine.emit(origins)
    return found.marked(origins)


def _call(machine: Machine, node: ast.Call) -> Value:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        frame = machine.frame
        if frame.cls is not None and frame.receiver is not None:
            return Super(frame.cls, frame.receiver)
    function = machine.value(node.func)
    args: list[Value] = []
    for each in node.args:
        if isinstance(each, ast.Starred):
            spread = machine.value(each.value)
            known = items_of(machine, spread, each)
            args += known if known is not None else [sample_item(machine, spread, each)]
        else:
            args.append(machine.value(each))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        found = machine.value(keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = found
        elif isinstance(found, Mapping):
            kwargs |= {key: each for key, each in found.slots.items() if isinstance(key, str)}
    return machine.call(function, args, kwargs, node)


def _list(machine: Machine, node: ast.List | ast.Tuple | ast.Set) -> Value:
    kind = {ast.List: "list", ast.Tuple: "tuple", ast.Set: "set"}[type(node)]
    found: list[Value] = []
    for each in node.elts:
        if not isinstance(each, ast.Starred):
            found.append(machine.value(each))
            continue
        spread = machine.value(each.value)
        known = items_of(machine, spread, each)
        if known is None:
            rest = joined([*found, sample_item(machine, spread, each)], machine.round)
            return Sequence(kind, None, machine.round, rest)
        found += known
    return Sequence(kind, found, machine.round)


def _dict(machine: Machine, node: ast.Dict) -> Value:
    made = Mapping(machine.round)
    for key, each in zip(node.keys, node.values, strict=True):
        found = machine.value(each)
        if key is None:
            if isinstance(found, Mapping):
                made.slots.update(found.slots)
                made.rest = found.rest if made.rest is None else made.rest
            else:
                made.rest = Value()
            continue
        known = key_of(machine.value(key))
        if known is None:
            made.rest = joined([*([made.rest] if made.rest is not None else []), found], machine.round)
        else:
            made.slots[known] = found
    return made


def _comprehension(machine: Machine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    found: list[Value] = []
    pairs = Mapping(machine.round)
    exact = [True]
    sources: list[Origins] = []
    outer = machine.frame.scope
    machine.frame.scope = Scope(machine.round, outer, outer.global_scope)
    if isinstance(node, ast.DictComp):
        machine.frame.scope.slots["[]"] = pairs  # what it has made so far is alive
    elif not isinstance(node, ast.GeneratorExp):
        machine.frame.scope.slots["[]"] = Sequence("list", found, machine.round)

    def produce(place: int) -> int:
        if place == len(node.generators):
            if isinstance(node, ast.DictComp):
                key, each = key_of(machine.value(node.key)), machine.value(node.value)
                if key is None:
                    pairs.rest = joined([*([pairs.rest] if pairs.rest is not None else []), each], machine.round)
                else:
                    pairs.slots[key] = each
            else:
                found.append(machine.value(node.elt))
            return 0
        generator = node.generators[place]
        source = machine.value(generator.iter)
        sources.append(source.origins)
        exact[0] = exact[0] and items_of(machine, source, generator.iter) is not None

        def turn(each: Value) -> int:
            assign(machine, generator.target, each)
            for condition in generator.ifs:
                known, origins = holds(machine, condition)
                if known is False and not origins:
                    return 0
                exact[0] = exact[0] and known is not None
            return produce(place + 1)

        iterate(machine, source, generator.iter, turn)
        return 0

    try:
        produce(0)
    finally:
        machine.frame.scope = outer
    if isinstance(node, ast.DictComp):
        return pairs
    if machine.torch.outputs and not machine.inside and _same_memory(found):
        message = f"{quoted(node)} keeps outputs of a graphed callable, which the next call overwrites"
        machine.add("CG308", *machine.site(node), message, ())
    kind = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "iterator"}[type(node)]
    if exact[0]:
        return Sequence(kind, found, machine.round)
    made = Sequence(kind, None, machine.round, joined(found, machine.round))
    made.origins = frozenset().union(*sources)
    return made


def _same_memory(found: list[Value]) -> bool:
    return (
        len(found) > 1
        and isinstance(found[0], Tensor)
        and all(isinstance(each, Tensor) and each.storages == found[0].storages for each in found)
    )


def _formatted_string(machine: Machine, node: ast.JoinedStr) -> Value:
    parts: list[Value] = []
    for each in node.values:
        if isinstance(each, ast.FormattedValue):
            found = machine.value(each.value)
            parts.append(found)
            if each.format_spec is not None:
                machine.value(each.format_spec)
            machine.library.read_text(machine, found, each.value)
        else:
            parts.append(machine.value(each))
    if all(isinstance(each, Host) and each.known for each in parts) and not any(
        isinstance(each, ast.FormattedValue) and (each.format_spec or each.conversion != -1) for each in node.values
    ):
        text = "".join(str(each.value) for each in parts if isinstance(each, Host))
        return const(text[:4000], origins_of(parts))
    return Host("str", sym=mix("text", *(each.sym for each in parts)), origins=origins_of(parts))


def _walrus(machine: Machine, node: ast.NamedExpr) -> Value:
    found = machine.value(node.value)
    bind(machine, node.target.id, found, node)
    return found


def _lambda(machine: Machine, node: ast.Lambda) -> Value:
    made = Function(node, machine.frame.scope.visible(), machine.frame.module, "<lambda>")
    made.defaults = defaults(machine, node.args)
    made.owner = machine.frame.cls
    machine.created.setdefault(node, []).append(made)
    return made


def _slice(machine: Machine, node: ast.Slice) -> Value:
    return Sequence("slice", [machine.value(each) for each in (node.lower, node.upper, node.step)], machine.round)


def _starred(machine: Machine, node: ast.Starred) -> Value:
    return machine.value(node.value)


def _await(machine: Machine, node: ast.Await) -> Value:
    return machine.value(node.value)


def _yield(machine: Machine, node: ast.Yield) -> Value:
    found = machine.value(node.value)
    if machine.frame.on_yield is not None:
        machine.frame.on_yield(found)
    return Value()


def _yield_from(machine: Machine, node: ast.YieldFrom) -> Value:
    source = machine.value(node.value)
    yielded = machine.frame.on_yield
    if yielded is not None:
        iterate(machine, source, node.value, yielded)
    return Value()


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
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.JoinedStr: _formatted_string,
    ast.NamedExpr: _walrus,
    ast.Lambda: _lambda,
    ast.Slice: _slice,
    ast.Starred: _starred,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}
