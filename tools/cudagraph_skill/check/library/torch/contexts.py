"""Run the body of a `with` under something of a library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import (
    Bound,
    External,
    Host,
    Instance,
    Native,
    Object,
    Sequence,
    Tensor,
    Value,
    const,
    quoted,
)
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import autocast, autograd, random, recurrent, state, streams

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

    Body = Callable[[Value], int]

_NO_GRADIENTS = {"torch.no_grad", "torch.inference_mode"}


def enter(machine: Machine, context: Value, node: ast.expr, body: Body, statement: ast.AST) -> int:
    """Run the body of a `with` under something of a library; return how it leaves."""
    if isinstance(context, Host) and context.kind == "device":
        return _on_device(machine, context, body)
    if isinstance(context, Instance):
        _dispatch(machine, context, node)
    if not isinstance(context, (Object, External)):
        return body(context if isinstance(context, Instance) else Value())
    if context.name == "contextlib.suppress":
        return _suppressed(machine, body, context)
    if isinstance(context, Object) and context.name == "torch.cuda.graph":
        return _capture(machine, context, node, body, statement)
    run = _CONTEXTS.get(context.name)
    if run is not None and isinstance(context, Object):
        return run(machine, context, node, body)
    if context.name.endswith("fork_rng") and random.forks_gpu(context):
        message = f"{quoted(node)} sets the random state back at capture only: replays go on from where they are"
        machine.report("CG606", node, message)
    if context.name.endswith("save_on_cpu"):
        machine.report("CG203", node, f"{quoted(node)} copies what backward needs to the host and back")
    no_gradients = context.name in _NO_GRADIENTS
    machine.torch.no_grad += no_gradients
    try:
        return body(context if isinstance(context, Object) else Value())
    finally:
        machine.torch.no_grad -= no_gradients
        if context.name.endswith("fork_rng") and random.forks_gpu(context):  # it sets the state back
            recurrent.on_seed(machine, node)


def _capture(machine: Machine, context: Object, node: ast.expr, body: Body, statement: ast.AST) -> int:
    if machine.inside:
        machine.report("CG406", node, f"{quoted(node)} begins a capture inside a capture")
        return body(context)
    return machine.region_hook(context, node, body, statement) if machine.region_hook else body(context)  # type: ignore[return-value]


def _on_device(machine: Machine, context: Host, body: Body) -> int:
    before, machine.torch.default_device = machine.torch.default_device, str(context.value)
    try:
        return body(context)
    finally:
        machine.torch.default_device = before


def _on_stream_of(machine: Machine, context: Object, node: ast.expr, body: Body) -> int:
    """Run `with torch.cuda.stream(side)`."""
    stream = bind("stream", context.args, context.kwargs).first() or Value()
    return streams.on_stream(machine, stream, node, body, context)


def _on_stream(machine: Machine, context: Object, node: ast.expr, body: Body) -> int:
    """Run `with side`, which a stream allows as well."""
    return streams.on_stream(machine, context, node, body, context)


def _with_casts(machine: Machine, context: Object, node: ast.expr, body: Body) -> int:
    """Run an autocast block, which keeps its casts until it ends."""
    depth = len(machine.torch.autocasts)
    if autocast.caches(context) and not machine.inside:
        machine.torch.autocasts.append((context, machine.site(node)))
    try:
        return body(context)
    finally:
        del machine.torch.autocasts[depth:]


def _with_callbacks(machine: Machine, context: Object, _: ast.expr, body: Body) -> int:
    """Run an ExitStack, which may enter autocast blocks."""
    depth = len(machine.torch.autocasts)
    try:
        return body(context)
    finally:
        del machine.torch.autocasts[depth:]


def _with_given(_: Machine, context: Object, __: ast.expr, body: Body) -> int:
    return body(context.args[0] if context.args else const(None))


_CONTEXTS: dict[str, Callable[[Machine, Object, ast.expr, Body], int]] = {
    "torch.cuda.stream": _on_stream_of,
    "torch.cuda.StreamContext": _on_stream_of,
    **dict.fromkeys(streams.STREAMS, _on_stream),
    "torch.autograd.detect_anomaly": autograd.in_anomaly_mode,
    "torch.autograd.set_detect_anomaly": autograd.in_anomaly_mode,
    "torch.autocast": _with_casts,
    "contextlib.ExitStack": _with_callbacks,
    "contextlib.nullcontext": _with_given,
    "contextlib.closing": _with_given,
}


def _dispatch(machine: Machine, context: Instance, node: ast.AST) -> None:
    """Follow a dispatch mode for one operation: it sees every one of its block."""
    tensor = Tensor("cuda", None, "float")
    function = Native(lambda _, __: tensor)
    for name in ("__torch_dispatch__", "__torch_function__"):
        member = context.cls.find(name)
        if member and machine.inside:
            types, args = Value(), Sequence("tuple", [tensor], machine.round)
            machine.call(Bound(context, member[1]), [function, types, args, const(None)], {}, node)


def _suppressed(machine: Machine, body: Body, context: Value) -> int:
    before = set(machine.findings)
    status = body(context)
    for key in set(machine.findings) - before:
        if state.breaks_capture(key[2]):
            finding = machine.findings[key]
            message = "suppressing the error does not save the capture: it stays invalid"
            machine.add("CG233", finding.path, finding.line, finding.column, message, finding.via)
    return status
