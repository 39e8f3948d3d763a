"""Call what torch.compile, vmap, grad and their like return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.capture_sites import compiles_with_graphs
from cudagraph_skill.check.interpreter.values import (
    Bound,
    Choice,
    Class,
    External,
    Function,
    Instance,
    Mapping,
    Native,
    Object,
    Partial,
    Sequence,
    Tensor,
    Value,
    const,
    is_none,
    joined,
    quoted,
)
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import autocast, autograd, graphs

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_CALLABLE = (Function, Bound, Partial, Instance, Object, External, Choice, Native)

Args = list[Value]
Kwargs = dict[str, Value]


def wrapper(how: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    """Return the function that wraps a callable: compile, vmap, grad."""

    def make(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if how == "compile" and machine.torch.calling is not None:
            machine.torch.calling(machine, Value(), how, args, kwargs, node)
        if not args or is_none(args[0]) or not (type(args[0]) is Value or isinstance(args[0], _CALLABLE)):
            return Native(lambda given, _: _wrapped(machine, given[0], kwargs, how, node) if given else Value())
        return _wrapped(machine, args[0], kwargs, how, node)

    return make


def _wrapped(machine: Machine, function: Value, kwargs: Kwargs, how: str, node: ast.AST) -> Partial:
    if how == "compile" and machine.torch.calling is not None:
        machine.torch.calling(machine, function, "compiled", [], kwargs, node)
    return Partial(function, [], kwargs, how)


def call_wrapped(machine: Machine, partial: Partial, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call what vmap, grad, compile and their like return."""
    if partial.how == "autograd" and isinstance(partial.function, Class):
        return autograd.apply_function(machine, partial.function, args, kwargs, node)
    if partial.how == "compile":
        return _call_compiled(machine, partial, args, kwargs, node)
    if partial.how == "graphed":
        if not machine.inside:
            return graphs.call_graphed(machine, partial, args, kwargs, node)
        machine.report("CG406", node, f"{quoted(node)} replays a graph inside a capture")
        return Tensor()
    if partial.how == "graph_module":
        return graphs.call_graph_module(machine, partial, args, kwargs, node)
    if partial.how == "autocast":
        return autocast.call_under(machine, partial, args, kwargs, node)
    if partial.how == "launch":
        machine.library.on_unknown(machine)
        machine.gpu_work(node, *args, *kwargs.values())
        return const(None)
    if partial.how == "vmap":
        args = [Tensor(arg.device, None, arg.dtype) if isinstance(arg, Tensor) else arg for arg in args]
    return _transformed(machine, partial.how, args, machine.call(partial.function, args, kwargs, node))


def _transformed(machine: Machine, how: str, args: Args, result: Value) -> Value:
    """Return what a transform of torch.func makes of the result of the function."""
    if how in {"grad_and_value", "value_and_grad", "vjp", "jvp"}:
        return Sequence("tuple", [Tensor(), result], machine.round)
    if how == "vmap" and isinstance(result, (Tensor, Sequence, Mapping)):
        return result
    if how == "grad" and args and isinstance(args[0], (Mapping, Sequence)):
        return args[0]
    return Tensor("", None, "float") if how in {"grad", "vmap", "jacrev", "jacfwd", "hessian"} else result


def _call_compiled(machine: Machine, partial: Partial, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    graphs_there = compiles_with_graphs(partial.kwargs)
    if machine.inside and machine.torch.compiling:
        return machine.call(partial.function, args, kwargs, node)
    if machine.inside:
        if graphs_there:
            machine.report("CG406", node, f"{quoted(node)} replays CUDA graphs of its own inside the capture")
        elif machine.torch.script and not getattr(partial, "args", None):
            machine.report("CG407", node, f"{quoted(node)} compiles at its first call, inside the capture")
    else:
        partial.args = [const(True)]
    before = machine.reporting
    machine.reporting = False
    try:
        made = machine.call(partial.function, args, kwargs, node)
    finally:
        machine.reporting = before
    return (
        graphs.output_of_compiled(machine, partial, made, args, kwargs, node) if graphs_there and not machine.inside else made
    )


def functional_call(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a module with other parameters."""
    bound = bind("module, parameter_and_buffer_dicts|parameters_and_buffers, args, kwargs", args, kwargs)
    module, parameters = bound.get("module"), bound.get("parameter_and_buffer_dicts")
    given = bound.get("args") or Value()
    inner = list(given.items or []) if isinstance(given, Sequence) else [given]
    if parameters is not None:
        machine.use(parameters)
    return machine.call(module, inner, {}, node) if module is not None else Value()


def cond(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call both branches of `torch.cond`."""
    bound = bind("pred, true_fn, false_fn, operands", args, kwargs)
    operands = bound.get("operands")
    inner = operands.each() if isinstance(operands, Sequence) else []
    results = [machine.call(branch, inner, {}, node) for branch in bound.given(("true_fn", "false_fn"))]
    return joined(results, machine.round) or Value()
