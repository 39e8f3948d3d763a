"""Follow CUDAGraph objects and make_graphed_callables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Object, Partial, Sequence, Tensor, Value, const, quoted, tensors_in
from cudagraph_skill.check.library.binding import bind

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

# Classes of tensordict that capture a callable
MODULES = {"tensordict.nn.CudaGraphModule", "tensordict.nn.cudagraphs.CudaGraphModule", "tensordict.CudaGraphModule"}


def flush(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Report memory management, which runs at capture only."""
    del args, kwargs
    machine.report("CG502", node, f"{quoted(node)} runs at capture only, and costs time")
    return const(None)


def call_graphed(machine: Machine, partial: Partial, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a replay through a graphed callable: its outputs are the same tensors each time."""
    machine.torch.graphed_called = True
    if machine.torch.calling is not None:
        machine.torch.calling(machine, partial, "graphed", args, kwargs, node)
    if id(partial) not in machine.torch.outputs:
        made = machine.call(partial.function, args, kwargs, node)
        for tensor in tensors_in(made):
            tensor.layout = "graphed"
        machine.torch.outputs[id(partial)] = made
    return machine.torch.outputs[id(partial)]


def output_of_compiled(machine: Machine, partial: Partial, made: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a call of a reduce-overhead function gives: memory of its graph, which torch lets nobody read after the next call."""
    if machine.torch.calling is not None:
        machine.torch.calling(machine, partial, "graphed", args, kwargs, node)
    given = {memory for value in (*args, *kwargs.values()) for tensor in tensors_in(value) for memory in tensor.storages}
    outputs = tensors_in(made)
    if not outputs or any(tensor.parameter or tensor.storages & given for tensor in outputs):
        return made  # an argument or a weight that it gives back
    # While a backward is to come, the outputs of several calls live side by side.
    machine.torch.compiled |= {memory: not machine.torch.no_grad for tensor in outputs for memory in tensor.storages}
    return made


def graph_callables(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return graphed versions of callables."""
    if machine.inside:
        machine.report("CG406", node, f"{quoted(node)} captures inside a capture")
        return Value()
    given = bind("callables|modules, sample_args", args, kwargs).first() or Value()
    if machine.torch.calling is not None:
        machine.torch.calling(machine, given, "make_graphed_callables", args, kwargs, node)
    if machine.torch.autocasts:
        machine.add(
            "CG608",
            *machine.site(node),
            f"{quoted(node)} captures while autocast keeps casts: cache_enabled=False is missing",
            (),
        )
    if isinstance(given, Sequence):
        items: Args | None = None if given.items is None else [Partial(item, [], {}, "graphed") for item in given.items]
        return Sequence("tuple", items, machine.round, given.rest)
    return Partial(given, [], {}, "graphed")


def graph_module(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return tensordict's CudaGraphModule of a callable: it warms up and captures when it is called."""
    function = bind("module", args, kwargs).first() or Value()
    if machine.inside:
        return Value()
    if machine.goal is not None and node is machine.goal.node and machine.torch.calling is not None:
        machine.torch.calling(machine, function, "CudaGraphModule", [function], {}, node)
    made = Partial(function, [], {}, "graph_module")
    machine.torch.graph_modules[id(made)] = (made, node)
    return made


def call_graph_module(machine: Machine, partial: Partial, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Capture at the first call; return copies of the outputs, as tensordict does."""
    if machine.inside:
        machine.report("CG406", node, f"{quoted(node)} replays a graph inside a capture")
        return Tensor()
    made = machine.torch.graph_modules.pop(id(partial), None)
    if made is not None and machine.torch.calling is not None:
        samples = Sequence("tuple", args, machine.round)
        machine.torch.calling(machine, partial.function, "CudaGraphModule", [partial.function, samples], {}, made[1])
    elif machine.torch.calling is not None:
        machine.torch.calling(machine, partial, "replayed", args, kwargs, node)
    return machine.call(partial.function, args, kwargs, node)


def is_capturing(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return whether a capture is under way."""
    del args, kwargs
    message = f"{quoted(node)} keeps GPU work out of the capture: no replay runs it"
    return const(machine.inside and machine.reporting, machine.origin("CG115", node, message))


def of_graph(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a CUDAGraph returns."""
    generator = bind("generator", args, kwargs).first()
    if name == "register_generator_state" and isinstance(generator, Object):
        generator.slots["registered"] = const(True)
    if name == "replay" and machine.inside:
        machine.report("CG406", node, f"{quoted(node)} replays a graph inside a capture")
    if name == "capture_begin" and machine.inside:
        machine.report("CG406", node, f"{quoted(node)} begins a capture inside a capture")
    del owner
    return const("pool") if name == "pool" else const(None)
