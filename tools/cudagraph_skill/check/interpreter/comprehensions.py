"""Evaluate list, set and dict comprehensions and generator expressions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.assignment import assign
from cudagraph_skill.check.interpreter.items import items_of, key_of
from cudagraph_skill.check.interpreter.iteration import iterate
from cudagraph_skill.check.interpreter.truth import holds
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Mapping,
    Origins,
    Scope,
    Sequence,
    Tensor,
    Value,
    joined,
    quoted,
)

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine

Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class _Result:
    """What a comprehension has made so far."""

    def __init__(self, machine: Machine) -> None:
        self.items: list[Value] = []
        self.pairs = Mapping(machine.round)
        self.exact = True  # the items are known one by one
        self.origins: Origins = NONE  # of what it goes through


def comprehension(machine: Machine, node: Comprehension) -> Value:
    """Return what a comprehension makes; its names are its own."""
    result = _Result(machine)
    outer = machine.frame.scope
    machine.frame.scope = Scope(machine.round, outer, outer.global_scope)
    # What it has made so far is alive while it goes on, which matters to the memory pools of graphs that it captures.
    if isinstance(node, ast.DictComp):
        machine.frame.scope.slots["[]"] = result.pairs
    elif not isinstance(node, ast.GeneratorExp):
        machine.frame.scope.slots["[]"] = Sequence("list", result.items, machine.round)
    try:
        _go_through(machine, node, 0, result)
    finally:
        machine.frame.scope = outer
    if isinstance(node, ast.DictComp):
        return result.pairs
    if machine.torch.outputs and not machine.inside and _share_memory(result.items):
        message = f"{quoted(node)} keeps outputs of a graphed callable, which the next call overwrites"
        machine.add("CG308", *machine.site(node), message, ())
    kind = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "iterator"}[type(node)]
    if result.exact:
        return Sequence(kind, result.items, machine.round)
    made = Sequence(kind, None, machine.round, joined(result.items, machine.round))
    made.origins = result.origins
    return made


def _go_through(machine: Machine, node: Comprehension, place: int, result: _Result) -> int:
    """Run the `for` at `place` and those within it; return how that ends a turn of the one around it: always to the next."""
    if place == len(node.generators):
        _produce(machine, node, result)
        return 0
    generator = node.generators[place]
    source = machine.value(generator.iter)
    result.origins |= source.origins
    result.exact = result.exact and items_of(machine, source, generator.iter) is not None

    def turn(item: Value) -> int:
        assign(machine, generator.target, item)
        for test in generator.ifs:
            truth, origins = holds(machine, test)
            if truth is False and not origins:
                return 0
            result.exact = result.exact and truth is not None
        return _go_through(machine, node, place + 1, result)

    iterate(machine, source, generator.iter, turn)
    return 0


def _produce(machine: Machine, node: Comprehension, result: _Result) -> None:
    if not isinstance(node, ast.DictComp):
        result.items.append(machine.value(node.elt))
        return
    key, item = key_of(machine.value(node.key)), machine.value(node.value)
    if key is None:
        pairs = result.pairs
        pairs.rest = joined([*([pairs.rest] if pairs.rest is not None else []), item], machine.round)
    else:
        result.pairs.slots[key] = item


def _share_memory(items: list[Value]) -> bool:
    """Tell whether several tensors are one memory: each call of a graphed callable returns the same."""
    first = items[0] if len(items) > 1 else None
    if not isinstance(first, Tensor):
        return False
    return all(isinstance(item, Tensor) and item.storages == first.storages for item in items)
