"""Run backward passes: gradients, hooks, the user's autograd functions, checkpointing."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check import edits
from cudagraph_skill.check.interpreter.values import (
    Class,
    Function,
    Host,
    Object,
    Sequence,
    Tensor,
    Value,
    const,
    quoted,
    tensors_in,
)
from cudagraph_skill.check.library.binding import bind

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


def in_anomaly_mode(machine: Machine, context: Object, node: ast.expr, body: Callable[[Value], int]) -> int:
    """Run a block under anomaly detection, which checks every gradient for NaN."""
    parameters = "mode, check_nan" if context.name.endswith("set_detect_anomaly") else "check_nan"
    given = bind(parameters, context.args, context.kwargs).given(("mode", "check_nan"))
    if not any(isinstance(value, Host) and value.value is False for value in given):
        machine.report("CG231", node, f"{quoted(node)} checks every gradient for NaN on the host")
    return body(context)


def checkpoint_sequential(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a function of which the backward recomputes segments."""
    bound = bind("functions, segments, input", args, kwargs)
    given = bound.given(("functions", "input"))
    return checkpoint(machine, given, kwargs, node) if len(given) == 2 else Value()


def checkpoint(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a function that the backward runs again."""
    bound = bind(
        "function, *args, use_reentrant, preserve_rng_state, context_fn, determinism_check, debug, early_stop", args, kwargs
    )
    reentrant = bound.get("use_reentrant")
    if machine.torch.graphing and not (isinstance(reentrant, Host) and reentrant.value is False):
        machine.report(
            "CG609",
            node,
            f"{quoted(node)} recomputes by a nested backward, which a graphed callable cannot: use_reentrant=False",
            edits.keyword(node, "use_reentrant", "False"),
        )
    function = bound.get("function")
    to_function = {str(key): value for key, value in bound.extra.items()}
    return machine.call(function, bound.rest, to_function, node) if function is not None else Value()


def gradients(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the gradients that `torch.autograd.grad` computes."""
    bound = bind("outputs|tensors, inputs|grad_tensors, grad_outputs|retain_graph, retain_graph, create_graph", args, kwargs)
    twice, outputs = bound.get("create_graph"), bound.given(("outputs",))
    graphed = any(tensor.layout == "graphed" for output in outputs for tensor in tensors_in(output))
    if graphed and isinstance(twice, Host) and twice.value is True and not machine.inside:
        message = f"{quoted(node)} wants a second derivative, which a graphed callable does not have"
        machine.add("CG413", *machine.site(node), message, ())
    machine.gpu_work(node, *outputs)
    run_backwards(machine, node)
    wanted = bound.get("inputs") or Value()
    if isinstance(wanted, Sequence):
        items = None if wanted.items is None else [_like(item) for item in wanted.items]
        return Sequence("tuple", items, machine.round, Tensor("", None, "float"))
    return Sequence("tuple", [_like(wanted)], machine.round)


def _like(value: Value) -> Value:
    return Tensor(value.device, value.ndim, "float") if isinstance(value, Tensor) else Tensor("", None, "float")


def run_backwards(machine: Machine, node: ast.AST) -> None:
    """Follow a backward into the user's own autograd functions and hooks."""
    if machine.inside and machine.reporting and not machine.quiet:
        for product, place, via in machine.torch.products:
            machine.add("CG211", *place, f"the backward of {quoted(product)} looks for zeros, whose number the host reads", via)
    backwards, machine.torch.backwards = machine.torch.backwards, []
    for backward, context in reversed(backwards):
        machine.call(backward, [context, Tensor("", None, "float"), Tensor("", None, "float")], {}, node)
    hooks, machine.torch.tensor_hooks = machine.torch.tensor_hooks, []
    for hook in [*hooks, *(machine.torch.lasting_hooks if machine.inside else [])]:
        machine.call(hook, [Tensor("", None, "float")], {}, node)


def set_detect_anomaly(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Switch anomaly detection on or off."""
    made = Object("torch.autograd.set_detect_anomaly", args, kwargs, machine.round)
    on = bind("mode, check_nan", args, kwargs).get("mode")
    if isinstance(on, Host) and on.value is True and machine.inside and not _is_context(machine, node):
        machine.report("CG231", node, f"{quoted(node)} checks every gradient for NaN on the host")
    return made


def _is_context(machine: Machine, node: ast.AST) -> bool:
    for statement in ast.walk(machine.frame.module.tree):
        if isinstance(statement, ast.With) and any(item.context_expr is node for item in statement.items):
            return True
    return False


def apply_function(machine: Machine, owner: Class, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Run an autograd function of the user's, and remember its backward."""
    forward, backward = owner.find("forward"), owner.find("backward")
    context = Object("torch.autograd.Context", [], {}, machine.round)
    if forward is None:
        return Value()
    wants = isinstance(forward[1], Function) and forward[1].node.args.args and len(forward[1].node.args.args) > len(args)
    result = machine.call(forward[1], [context, *args] if wants or not owner.find("setup_context") else args, kwargs, node)
    if backward is not None and machine.inside:
        machine.torch.backwards.append((backward[1], context))
    return result


def zero_grad(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Drop or zero gradients."""
    state = machine.torch
    drops = drops_gradients(args, kwargs)
    if machine.inside:
        state.zeroed = True
        state.dropped = state.dropped or (drops and not state.went_back)
    else:
        state.gradients_left = False
        state.gradients_held = state.gradients_held and not drops
    del owner, node
    return const(None)


def drops_gradients(args: Args, kwargs: Kwargs) -> bool:
    """Tell whether `zero_grad` with these arguments sets gradients to None, which is its default."""
    given = bind("set_to_none", args, kwargs).get("set_to_none")
    return given is None or (isinstance(given, Host) and given.value is True)


def of_context(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Keep what an autograd function saves for its backward."""
    del kwargs, node
    if name == "save_for_backward":
        owner.slots["saved_tensors"] = Sequence("tuple", args, machine.round)
    return const(None)
