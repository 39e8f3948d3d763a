"""Go through the items of a loop, or through what a generator yields."""

from __future__ import annotations

import ast
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.calls import run
from cudagraph_skill.check.interpreter.frames import BREAK, NEXT, RAISE, RETURN
from cudagraph_skill.check.interpreter.items import items_of, sample_item, walks_rows
from cudagraph_skill.check.interpreter.values import Function, Host, Object, Sequence, Value, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_SHORT = 2_000  # steps of a loop in which it may take more than two turns with items that are not known
TURNS = 12  # turns of a loop that are followed: enough for layers that differ, and for state that settles


def iterate(machine: Machine, source: Value, node: ast.AST, turn: Callable[[Value], int], most: int = 2) -> bool:
    """Run `turn` for the items of `source`, for `most` of them where they are not known; tell whether it ended early for certain."""
    if isinstance(source, Object) and source.name == "generator":
        return _generate(machine, source, turn)
    items = items_of(machine, source, node)
    known = items is not None
    if items is None:
        # Two turns with any item show what one turn leaves for the next.
        item = sample_item(machine, source, node)
        items = [item] * 2 if machine.inside else list(accumulate(repeat(item, most), lambda last, _: _another(last)))
    before = machine.gpu_calls
    churns = machine.inside and walks_rows(source) and not isinstance(node, ast.Tuple)
    turns = items[:TURNS]
    if not machine.inside:
        turns[-1:] = items[-1:]  # shows what a program does late
    begun = machine.steps
    for place, item in enumerate(turns):
        if place > 1 and not known and machine.steps - begun > _SHORT:
            break
        status = machine.under(source.origins, lambda item=item: turn(item), node)  # type: ignore[misc]
        if status in {BREAK, RETURN, RAISE}:
            return known  # of an unknown number of items none may be there
    # One kernel for each row may be what the row is for; two that follow one another could be one for all rows.
    if churns and machine.gpu_calls - before >= 2:
        machine.report("CG504", node, f"this loop launches its kernels anew for each row of {quoted(node)}")
    return False


def _another(item: Value) -> Value:
    """Return what the next turn of a loop gets: a number is another one than in the turn before."""
    if isinstance(item, Host) and not item.known:
        return item.renamed("next")
    if isinstance(item, Sequence) and item.items is not None:
        return Sequence(item.kind, [_another(part) for part in item.items], item.made)
    return item


def _generate(machine: Machine, generator: Object, turn: Callable[[Value], int]) -> bool:
    """Run `turn` for what a generator yields, until it leaves the loop: the rest of the generator is not run then."""
    stopped = False

    def yielded(value: Value) -> int:
        nonlocal stopped
        if not stopped:
            stopped = turn(value) in {BREAK, RETURN, RAISE}
        return NEXT

    run_generator(machine, generator, yielded)
    return stopped


def run_generator(machine: Machine, generator: Object, on_yield: Callable[[Value], int]) -> None:
    """Run the body of a generator function; its frames are put aside while the consumer has what was yielded."""
    function = generator.args[0]
    depth = len(machine.frames)

    def yielded(value: Value) -> int:
        inner = machine.frames[depth:]
        del machine.frames[depth:]
        try:
            return on_yield(value)
        finally:
            machine.frames[depth:] = inner

    if isinstance(function, Function):
        run(machine, function, list(generator.args[1:]), dict(generator.kwargs), None, yielded)
