"""Follow calls: into functions of the user's, and to the library for everything else."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter import syntax
from cudagraph_skill.check.interpreter.assumptions import assuming
from cudagraph_skill.check.interpreter.attributes import Later, bind_member
from cudagraph_skill.check.interpreter.frames import NEXT, RETURN, Exhausted, Frame
from cudagraph_skill.check.interpreter.identity import fingerprint, outline
from cudagraph_skill.check.interpreter.values import (
    Bound,
    Choice,
    Class,
    External,
    Function,
    Instance,
    Method,
    Native,
    Object,
    Partial,
    Scope,
    Value,
    const,
    joined,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_DEPTH = 36  # calls within each other: a deep model has about ten, and the check's own stack is not endless
_ASIDE = 2_000  # steps of a function that does not lead to the capture that is looked for
_PACKAGED = 60_000  # steps of a call into an installed package
_PACKAGED_IN_ALL = 400_000  # and of all of them, for one reading of a file
_LOADERS = {"from_pretrained", "from_config", "_from_config"}  # make an object of their class, after much that reads files
_SAME = 2  # calls of one function within itself


def _call_function(machine: Machine, function: Function, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    # What the program calls a function with is the best sample of what its capture gets.
    if not machine.inside and not isinstance(function.node, ast.Lambda):
        machine.observed[function.node] = (args, kwargs)
    if "contextmanager" in function.marks or syntax.yields(function.node):
        # The body runs when something is asked of it.
        how = "contextmanager" if "contextmanager" in function.marks else "generator"
        return Object(how, [function, *args], kwargs, machine.round)
    if function.module.installed and function.name in _LOADERS and args and isinstance(args[0], Class):
        return machine.call(args[0], [Value()], {}, node)
    if function.memo is not None:
        key = (tuple(map(fingerprint, args)), tuple((name, fingerprint(value)) for name, value in kwargs.items()))
        if key not in function.memo:
            function.memo[key] = run(machine, function, args, kwargs, node, None)
        return function.memo[key]
    return run(machine, function, args, kwargs, node, None)


def run(
    machine: Machine,
    function: Function,
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.AST | None,
    yielded: Callable[[Value], int] | None,
) -> Value:
    """Return what a function of the user's returns; `yielded` gets what it yields.

    Where summaries are kept, each function is followed once in a round, whatever its arguments are.
    """
    summary = (function.node, machine.round)
    if machine.summaries is not None and summary in machine.summaries and yielded is None:
        machine.library.on_unknown(machine)
        return machine.summaries[summary]
    result = _follow(machine, function, args, kwargs, node, yielded)
    if machine.summaries is not None:
        machine.summaries[summary] = result
    return result


def _follow(
    machine: Machine,
    function: Function,
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.AST | None,
    yielded: Callable[[Value], int] | None,
) -> Value:
    """Run the body of a function on its arguments; return what it may return."""
    if len(machine.frames) > _DEPTH or _recurs(machine, function, [*args, *kwargs.values()], node):
        machine.library.on_unknown(machine)
        return Value()
    scope = Scope(machine.round, function.scope, function.scope.global_scope)
    frame = Frame(function.module, scope, function.name, node)
    frame.cls = function.owner
    frame.receiver = args[0] if args else None
    frame.node, frame.given = function.node, [*args, *kwargs.values()]
    frame.on_yield = yielded
    machine.library.bind_arguments(machine, function, args, kwargs, scope)
    if machine.varying is not None and machine.varying[0] is function.node:
        scope.varying = machine.varying[1]
    machine.frames.append(frame)
    no_grad = "no_grad" in function.marks
    machine.torch.no_grad += no_grad
    try:
        if isinstance(function.node, ast.Lambda):
            return machine.value(function.node.body)
        status = _run_body(machine, function.node.body, function.node)
        if machine.leaving is not None:
            machine.leaving(frame)
    finally:
        machine.frames.pop()
        machine.torch.no_grad -= no_grad
    # A body that may run to its end may return None.
    results = [*frame.returned, const(None)] if status == NEXT else frame.returned
    return joined(results, machine.round) or Value()


def _run_body(machine: Machine, body: list[ast.stmt], node: ast.AST) -> int:
    """Run the body of a function; on the way to a capture that is looked for, of others only the beginning."""
    if machine.frame.module.installed and not any(frame.module.installed for frame in machine.frames[-2:-1]):
        return _run_packaged(machine, body)
    if machine.goal is None or machine.inside or machine.goal.reached or machine.goal.leads([node]):
        return machine.block(body)
    budget, depth = machine.budget, len(machine.frames)
    machine.budget = min(budget, machine.steps + _ASIDE)
    try:
        return machine.block(body)
    except Exhausted:
        if machine.steps > budget:
            raise
        del machine.frames[depth:]
        machine.library.on_unknown(machine)
        return NEXT
    finally:
        machine.budget = budget


def _run_packaged(machine: Machine, body: list[ast.stmt]) -> int:
    """Run the body of a function of an installed package on steps of its own; beyond them nothing is known of its result."""
    steps, budget, depth = machine.steps, machine.budget, len(machine.frames)
    name = machine.frame.module.name
    machine.budget = steps + min(_PACKAGED, max(0, _PACKAGED_IN_ALL - machine.packaged))
    try:
        return machine.block(body)
    except Exhausted:
        machine.project.beyond.add(name.split(".")[0])
        del machine.frames[depth:]
        machine.frame.returned[:] = [Value()]
        machine.library.on_unknown(machine)
        return RETURN
    finally:
        machine.packaged += machine.steps - steps
        machine.steps, machine.budget = steps, budget


def _recurs(machine: Machine, function: Function, given: list[Value], node: ast.AST | None) -> bool:
    """Tell whether a call within itself is followed far enough: from this place, or with arguments of which no more is known."""
    # A closure that is made anew in each call has another outer scope: that is not the same function again.
    if sum(frame.scope.outer is function.scope and frame.call is node for frame in machine.frames) > _SAME:
        return True
    within = [frame.given for frame in machine.frames if frame.node is function.node]
    return len(within) >= _SAME and list(map(_known_of, within)).count(_known_of(given)) >= _SAME


def _call_bound(machine: Machine, bound: Bound, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return machine.call(bound.function, [bound.receiver, *args], kwargs, node)


def _call_partial(machine: Machine, partial: Partial, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if partial.how:
        return machine.library.call_wrapped(machine, partial, args, kwargs, node)
    return machine.call(partial.function, [*partial.args, *args], {**partial.kwargs, **kwargs}, node)


def _call_choice(machine: Machine, choice: Choice, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    machine.sink(choice)  # if which one it is changes, the graph has the one of the capture
    results: list[Value] = []

    def call(option: Value) -> int:
        results.append(machine.call(option, args, kwargs, node))
        return NEXT

    for option in choice.options:
        # Which of several layers it is, is not known: what only one of them does wrong may never run.
        if isinstance(option, Object):
            machine.hushed(lambda option=option: call(option))  # type: ignore[misc]
        else:
            call(option)
    return joined(results, machine.round) or Value()


def _call_native(_: Machine, native: Native, args: list[Value], kwargs: dict[str, Value], __: ast.AST) -> Value:
    return native.run(args, kwargs)


def _call_class(machine: Machine, cls: Class, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return machine.library.instantiate(machine, cls, args, kwargs, node)


def _call_instance(machine: Machine, instance: Instance, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    method = instance.cls.find("__call__")
    if method:
        return machine.call(bind_member(method[1], instance), args, kwargs, node)
    return machine.library.call_module(machine, instance, args, kwargs, node)


def _call_external(machine: Machine, external: External, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    given = [*args, *kwargs.values()]
    result = assuming(machine, given, lambda: machine.library.call(machine, external.name, args, kwargs, node))
    machine.library.on_library(machine, external.name, given)
    return result


def _call_method(machine: Machine, method: Method, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    operands = [method.receiver, *args, *kwargs.values()]
    result = assuming(
        machine, operands, lambda: machine.library.call_method(machine, method.receiver, method.name, args, kwargs, node)
    )
    machine.library.on_method(machine, method.receiver, method.name, operands[1:])
    return result


def _call_object(machine: Machine, made: Object, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    result = machine.library.call_object(machine, made, args, kwargs, node)
    machine.library.on_library(machine, made.name, [*args, *kwargs.values()])
    return result


def _call_later(machine: Machine, later: Later, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    function = later.resolve(machine)
    # While only outlines are read, what a module exports may not be known yet.
    return Value() if isinstance(function, Later) else machine.call(function, args, kwargs, node)


def _known_of(given: list[Value]) -> list[object]:
    """Return what is known of arguments: which objects of the user's, and what kind of other values."""
    return [value if isinstance(value, Instance) else outline(value) for value in given]


CALLS: dict[type, Callable[..., Value]] = {
    Function: _call_function,
    Bound: _call_bound,
    Partial: _call_partial,
    Choice: _call_choice,
    Native: _call_native,
    Class: _call_class,
    Instance: _call_instance,
    External: _call_external,
    Method: _call_method,
    Object: _call_object,
    Later: _call_later,
}
