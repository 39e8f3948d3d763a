"""Follow streams and events: fork from the capture, join again, wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Host, Object, Value, const, number, quoted
from cudagraph_skill.check.library.binding import bind

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

STREAMS = {
    "torch.cuda.Stream",
    "torch.cuda.current_stream",
    "torch.cuda.default_stream",
    "torch.Stream",
    "torch.cuda.ExternalStream",
}


def on_launch(machine: Machine) -> None:
    """Look at the stream on which GPU work is launched."""
    state = machine.torch
    if not state.streams:
        return
    stream, where = state.streams[-1]
    if stream is state.capture_stream or id(stream) in state.followers:
        return
    if stream.name == "torch.cuda.default_stream":
        _report(machine, "CG403", where, "work on the default stream is not in the capture: a replay leaves it out")
    elif id(stream) in state.forked:
        state.unjoined.setdefault(id(stream), where)
    elif stream.name in STREAMS:
        state.unforked.add(id(stream))
        _report(machine, "CG401", where, f"work on {quoted(where)} runs on a stream that never waited for the capturing one")


def on_end(machine: Machine) -> None:
    """Report forked streams that are not back when the capture ends."""
    for tensor, storages, places in machine.torch.rebound.values():
        if tensor.storages != storages:
            message = f"{quoted(places[-1])} is given new memory: a replay goes on reading the old"
            machine.add("CG303", *machine.torch.rebound_at[id(places[-1])], message, ())
    for where in machine.torch.unjoined.values():
        _report(machine, "CG402", where, "the capturing stream never waits for the work that was forked off here")


def _report(machine: Machine, hazard: str, where: ast.AST, message: str) -> None:
    """Report what a stream does where it was made the current one, in whichever file that is."""
    (path, line, column), via = machine.torch.entered[id(where)]
    if machine.reporting and machine.inside and not machine.quiet:
        machine.add(hazard, path, line, column, message, via, because=machine.reasons(where))


def _enter(machine: Machine, stream: Object, node: ast.AST) -> list[tuple[Object, ast.AST]]:
    machine.torch.entered[id(node)] = machine.site(node), machine.via()
    return [*machine.torch.streams, (stream, node)]


def on_stream(machine: Machine, stream: Value, node: ast.expr, body: Callable[[Value], int], context: Value) -> int:
    """Run a block on a stream."""
    if not isinstance(stream, Object):
        return body(context)
    before = machine.torch.streams
    machine.torch.streams = _enter(machine, stream, node)
    try:
        return body(context)
    finally:
        machine.torch.streams = before  # a capture in the block has begun with none


def current_stream(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the stream that work is launched on now."""
    del kwargs, node, args
    if machine.torch.streams:
        return machine.torch.streams[-1][0]
    return machine.torch.capture_stream if machine.inside else Object("torch.cuda.current_stream", [], {}, machine.round)


def set_stream(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Make a stream the current one."""
    stream = bind("stream", args, kwargs).get("stream")
    if stream is machine.torch.capture_stream:
        machine.torch.streams = []
    elif isinstance(stream, Object):
        machine.torch.streams = _enter(machine, stream, node)
    return const(None)


def default_stream(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the default stream."""
    del args, kwargs, node
    return Object("torch.cuda.default_stream", [], {}, machine.round)


def _in_capture(machine: Machine, stream: Value) -> bool:
    return stream is machine.torch.capture_stream or id(stream) in machine.torch.forked


def of_stream(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a stream returns."""
    other = bind("stream|event", args, kwargs).first()
    if name == "synchronize":
        machine.torch.inflight.clear()
        machine.report("CG208", node, f"{quoted(node)} waits for the GPU")
    elif name == "query":
        machine.report("CG209", node, f"{quoted(node)} asks whether the stream is done")
        return Host("bool")
    elif name == "wait_stream" and other is not None:
        _waits(machine, owner, other, node)
    elif name == "wait_event" and isinstance(other, Object):
        _waits_for_event(machine, owner, other, node)
    elif name == "record_event":
        made = other if isinstance(other, Object) else Object("torch.cuda.Event", [], {}, machine.round)
        made.slots["on"] = owner
        made.slots["round"] = const(machine.round)
        return made
    return const(None)


def _waits(machine: Machine, owner: Value, other: Value, node: ast.AST) -> None:
    state = machine.torch
    if not machine.inside:
        return
    if not isinstance(other, Object):
        state.followers.add(id(owner))
    elif _in_capture(machine, other):
        state.unjoined.pop(id(other), None)
        if owner is not state.capture_stream:
            state.forked.add(id(owner))
    elif _in_capture(machine, owner) and id(other) not in state.unforked:
        machine.report("CG410", node, f"{quoted(node)} waits for a stream that is not part of the capture")


def _waits_for_event(machine: Machine, owner: Value, event: Object, node: ast.AST) -> None:
    state = machine.torch
    if not machine.inside:
        return
    on, when = event.slots.get("on"), event.slots.get("round")
    external = event.kwargs.get("external")
    if isinstance(external, Host) and external.value is True:
        return
    here = isinstance(when, Host) and when.value == machine.round and on is not None
    if here and on is not None and _in_capture(machine, on):
        state.unjoined.pop(id(on), None) if _in_capture(machine, owner) else None
        if owner is not state.capture_stream:
            state.forked.add(id(owner))
    elif (not here or on is not None) and _in_capture(machine, owner) and id(on) not in state.unforked:
        machine.report("CG410", node, f"{quoted(node)} waits for an event that was not recorded in this capture")


def of_event(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of an event returns."""
    given = bind("stream", args, kwargs).get("stream")
    if name == "record":
        owner.slots["on"] = given if isinstance(given, Object) else current_stream(machine, [], {}, node)
        owner.slots["round"] = const(machine.round if machine.inside else -1)
    elif name == "wait":
        _waits_for_event(machine, given if isinstance(given, Object) else current_stream(machine, [], {}, node), owner, node)
    elif name in {"synchronize", "query", "elapsed_time"}:
        machine.torch.inflight.clear()
        machine.report("CG209", node, f"{quoted(node)} waits for an event, or queries it")
        return number() if name == "elapsed_time" else Host("bool")
    return const(None)
