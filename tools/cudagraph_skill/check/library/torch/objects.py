"""Objects of torch: modules, optimizers, streams, events, generators, contexts, and what they do in captured code."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check import edits
from cudagraph_skill.check.interpreter import expressions
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Bound,
    Choice,
    Class,
    External,
    Function,
    Holder,
    Host,
    Instance,
    Mapping,
    Method,
    Native,
    Object,
    Origin,
    Partial,
    Sequence,
    Tensor,
    Value,
    const,
    device,
    fresh,
    is_none,
    joined,
    mix,
    number,
    origins_of,
    quoted,
    tensors_in,
)
from cudagraph_skill.check.library import python
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import functions
from cudagraph_skill.check.library.torch import operations as ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

_STREAMS = {
    "torch.cuda.Stream",
    "torch.cuda.current_stream",
    "torch.cuda.default_stream",
    "torch.Stream",
    "torch.cuda.ExternalStream",
}
_BLAS = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "chain_matmul"}


class State:
    """What torch itself keeps: streams, hooks, gradients, and what a script captured so far."""

    def __init__(self) -> None:
        self.default_device = "cpu"
        self.inputs: set[int] = set()  # storages of the captured function's arguments
        self.mark = 0  # storages below it are older than this round
        self.streams: list[tuple[Object, ast.AST]] = []
        self.forked: set[int] = set()
        self.unjoined: dict[int, ast.AST] = {}
        self.unforked: set[int] = set()
        self.capture_stream = Object("torch.cuda.current_stream", [], {}, 0)
        self.hooks: dict[int, list[tuple[str, Value]]] = {}
        self.tensor_hooks: list[Value] = []
        self.grads: dict[int, Value] = {}
        self.backwards: list[tuple[Value, Value]] = []
        self.warm: set[str] = set()  # libraries that ran outside a capture
        self.cold: set[str] = set()  # libraries that this capture uses
        self.script = False  # the region stands in a script that does its own warm-up
        self.keeping: Callable[[Machine, Sequence, Value, ast.AST], None] | None = None
        self.setting: Callable[[Machine, Value, str, Value, ast.AST], None] | None = None
        self.calling: Callable[[Machine, Value, str, Args, Kwargs, ast.AST], None] | None = None
        self.sparse_layers: list[Object] = []
        self.downloads: set[int] = set()  # CPU memory that the capture copies into
        self.inflight: set[int] = set()  # the same after a replay, until something waits
        self.autocasts: list[tuple[Object, tuple[str, int, int]]] = []  # entered around the code that runs, cache on
        self.graphing = False  # make_graphed_callables is capturing
        self.no_grad = 0
        self.backward_at: tuple[str, int, int] | None = None  # the captured backward
        self.went_back = False  # there was a backward in this round
        self.zeroed = False  # captured code drops or zeroes gradients itself
        self.gradients_left = False  # an earlier backward left gradients
        self.gradients_held = False  # gradients have memory from before the capture, be it zeroed
        self.dropped = False  # captured code has dropped gradients before its backward
        self.stepped: set[int] = set()  # memory of parameters that captured optimizers of this round step
        self.lazy: list[tuple[str, int, int]] = []  # first calls of lazy layers
        self.outputs: dict[int, Value] = {}  # what each graphed callable returns
        self.ddp_calls = 0  # in which DDP may still change
        self.mode_at: dict[int, tuple[str, int, int]] = {}
        self.graphed_called = False
        self.trained: set[int] = set()  # memory of parameters that layers used and that are not frozen
        self.rebound: dict[int, tuple[Tensor, frozenset[int], list[ast.AST]]] = {}  # tensors whose .data this round replaces
        self.rebound_at: dict[int, tuple[str, int, int]] = {}
        self.lasting_hooks: list[Value] = []  # of tensors, registered before the capture
        self.files_change = False  # other code writes files between calls
        self.log_level = ""
        self.products: list[tuple[ast.AST, tuple[str, int, int], tuple[str, ...]]] = []  # prod and cumprod of this round
        self.scheduled: set[int] = set()  # parameter groups whose schedule is stepped in the capture

    def begin(self) -> None:
        """A new call of the captured code."""
        self.mark = fresh()
        self.streams, self.forked, self.unjoined, self.unforked = [], set(), {}, set()
        self.backwards, self.tensor_hooks, self.cold, self.rebound = [], [], set(), {}
        self.products = []
        self.dropped, self.went_back, self.stepped = False, False, set()

    def grad_of(self, tensor: Tensor) -> Value:
        """The gradient of a tensor: one place for each memory."""
        memory = min(tensor.storages)
        if memory not in self.grads:
            self.grads[memory] = Tensor(tensor.device, tensor.ndim, "float")
        return self.grads[memory]

    def on_keep(self, machine: Machine, owner: Sequence, new: Value, node: ast.AST) -> None:
        """Something is put into a list."""
        if self.keeping is not None:
            self.keeping(machine, owner, new, node)


def breaks_capture(hazard: str) -> bool:
    """Whether a hazard raises a CUDA error inside the capture, so that catching it does not help."""
    return hazard.startswith("CG2") and hazard not in {"CG233", "CG235", "CG236"}


def on_launch(machine: Machine) -> None:
    """GPU work is launched: on which stream?"""
    state = machine.torch
    if not state.streams:
        return
    stream, where = state.streams[-1]
    if stream is state.capture_stream:
        return
    if stream.name == "torch.cuda.default_stream":
        machine.report("CG403", where, "work on the default stream is not in the capture: a replay leaves it out")
    elif id(stream) in state.forked:
        state.unjoined.setdefault(id(stream), where)
    elif stream.name in _STREAMS:
        state.unforked.add(id(stream))
        machine.report("CG401", where, f"work on {quoted(where)} runs on a stream that never waited for the capturing one")


def note_library(machine: Machine, node: ast.AST) -> None:
    """Which of CUDA's libraries this work needs: the first use of one cannot be captured."""
    library = _library_of(node)
    if library:
        (machine.torch.cold if machine.inside else machine.torch.warm).add(library)


def on_host_read(machine: Machine, tensor: Tensor, node: ast.AST) -> None:
    """The CPU reads a tensor of its own: is a copy from the GPU still on its way into it?"""
    message = f"{quoted(node)} reads a copy from the GPU that nothing has waited for"
    if machine.inside:
        if tensor.downloaded:
            machine.report("CG506", node, message)
    elif tensor.storages & machine.torch.inflight:
        machine.add("CG506", *machine.site(node), message, ())


def _library_of(node: ast.AST) -> str:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "cuBLAS"
    if isinstance(node, ast.Call):
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        )
        return "cuBLAS" if name in _BLAS else "cuDNN" if name.startswith("conv") else "cuFFT" if "fft" in name else ""
    return ""


def on_end(machine: Machine) -> None:
    """The capture ends: every forked stream has to be back."""
    for tensor, storages, places in machine.torch.rebound.values():
        if tensor.storages != storages:
            message = f"{quoted(places[-1])} is given new memory: a replay goes on reading the old"
            machine.add("CG303", *machine.torch.rebound_at[id(places[-1])], message, ())
    for where in machine.torch.unjoined.values():
        machine.report("CG402", where, "the capturing stream never waits for the work that was forked off here")


# Contexts -------------------------------------------------------------------------------------------------------------


def enter(machine: Machine, context: Value, node: ast.expr, body: Callable[[Value], int], statement: ast.AST) -> int:
    """Run the body of a `with` under something of a library."""
    name = context.name if isinstance(context, (Object, External)) else ""
    state = machine.torch
    if name in {"torch.cuda.stream", "torch.cuda.StreamContext"} and isinstance(context, Object) and context.args:
        return _on_stream(machine, context.args[0], node, body, context)
    if isinstance(context, Object) and name in _STREAMS:
        return _on_stream(machine, context, node, body, context)
    if name == "torch.cuda.graph" and isinstance(context, Object):
        if machine.inside:
            machine.report("CG406", node, f"{quoted(node)} begins a capture inside a capture")
            return body(context)
        return machine.region_hook(context, node, body, statement) if machine.region_hook else body(context)  # type: ignore[return-value]
    if name in {"torch.autograd.detect_anomaly", "torch.autograd.set_detect_anomaly"} and isinstance(context, Object):
        return _in_anomaly_mode(machine, context, node, body)
    if name.endswith("fork_rng") and _forks_gpu(context):
        machine.report(
            "CG606", node, f"{quoted(node)} sets the random state back at capture only: replays go on from where they are"
        )
    if name.endswith("save_on_cpu"):
        machine.report("CG203", node, f"{quoted(node)} copies what backward needs to the host and back")
    if isinstance(context, Host) and context.kind == "device":
        before, state.default_device = state.default_device, str(context.value)
        try:
            return body(context)
        finally:
            state.default_device = before
    if name in {"contextlib.nullcontext", "contextlib.closing"} and isinstance(context, Object):
        return body(context.args[0] if context.args else const(None))
    if name == "contextlib.suppress":
        return _suppressed(machine, node, body, context)
    if "ThreadPoolExecutor" in name or name == "concurrent.futures.Executor":
        return body(context)
    if isinstance(context, Instance):
        _dispatch(machine, context, node)
    given: Value = context if isinstance(context, (Object, Instance)) else Value()
    depth, grad = len(state.autocasts), name in {"torch.no_grad", "torch.inference_mode"}
    if name == "torch.autocast" and isinstance(context, Object) and caches(context) and not machine.inside:
        state.autocasts.append((context, machine.site(node)))
    state.no_grad += grad
    try:
        return body(given)
    finally:
        del state.autocasts[depth:]
        state.no_grad -= grad


def _dispatch(machine: Machine, context: Instance, node: ast.AST) -> None:
    """A dispatch mode sees every operation of its block: follow it for one."""
    tensor = Tensor("cuda", None, "float")
    function = Native(lambda _, __: tensor)
    for name in ("__torch_dispatch__", "__torch_function__"):
        found = context.cls.find(name)
        if found and machine.inside:
            machine.call(
                Bound(context, found[1]), [function, Value(), Sequence("tuple", [tensor], machine.round), const(None)], {}, node
            )


def _forks_gpu(context: Value) -> bool:
    if not isinstance(context, Object):
        return True
    devices = context.kwargs.get("devices") or (context.args[0] if context.args else None)
    enabled = context.kwargs.get("enabled") or (context.args[1] if len(context.args) > 1 else None)
    none = isinstance(devices, Sequence) and devices.items == []
    return not none and not (isinstance(enabled, Host) and enabled.value is False)


def _on_stream(machine: Machine, stream: Value, node: ast.expr, body: Callable[[Value], int], context: Value) -> int:
    if not isinstance(stream, Object):
        return body(context)
    before = list(machine.torch.streams)
    machine.torch.streams = [*before, (stream, node)]
    try:
        return body(context)
    finally:
        machine.torch.streams = before  # a capture in the block has begun with none


def _in_anomaly_mode(machine: Machine, context: Object, node: ast.expr, body: Callable[[Value], int]) -> int:
    checks = context.kwargs.get("check_nan")
    on = context.args[0] if context.args and context.name.endswith("set_detect_anomaly") else context.kwargs.get("mode")
    off = (isinstance(checks, Host) and checks.value is False) or (isinstance(on, Host) and on.value is False)
    if not off:
        machine.report("CG231", node, f"{quoted(node)} checks every gradient for NaN on the host")
    return body(context)


def _suppressed(machine: Machine, node: ast.expr, body: Callable[[Value], int], context: Value) -> int:
    before = set(machine.findings)
    status = body(context)
    for key in set(machine.findings) - before:
        if breaks_capture(key[2]):
            found = machine.findings[key]
            message = "suppressing the error does not save the capture: it stays invalid"
            machine.add("CG233", found.path, found.line, found.column, message, found.via)
    del node
    return status


# Functions ------------------------------------------------------------------------------------------------------------


def function(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value | None:
    """What a function of torch returns that is no operation on tensors; None for the rest."""
    run = _FUNCTIONS.get(name)
    if run is not None:
        return run(machine, args, kwargs, node)
    if name in ops.SYNCHRONIZE:
        machine.report("CG208", node, f"{quoted(node)} waits for the GPU")
        machine.torch.inflight.clear()
        return const(None)
    if name.startswith("torch.distributed.") and not name.startswith("torch.distributed.fsdp"):
        return _collective(machine, name, args, kwargs, node)
    if name.startswith("torch.distributions.") and name.rsplit(".", 1)[-1][:1].isupper():
        return _distribution(machine, name, args, kwargs, node)
    if name.startswith("torch.optim.") and name.rsplit(".", 1)[-1][:1].isupper():
        return _optimizer(machine, name, args, kwargs, node)
    if name.startswith("torch.nn.init."):
        return (
            functions.update(machine, args[0], args[1:], node, "normal_") if args and isinstance(args[0], Tensor) else Value()
        )
    if name == "torch.backends.cudnn.flags":
        searches = kwargs.get("benchmark") or (args[1] if len(args) > 1 else None)
        if isinstance(searches, Host) and searches.value is True:
            machine.report("CG412", node, f"{quoted(node)} searches for algorithms at the first call of each shape")
        return Object(name, args, kwargs, machine.round)
    if name.startswith(("torch.backends.", "torch._dynamo.", "torch._inductor.", "torch.jit.", "torch.fx.", "torch.onnx.")):
        return (
            args[0]
            if name in {"torch.jit.script", "torch.jit.export", "torch.jit.ignore", "torch._dynamo.disable"} and args
            else Value()
        )
    if name.endswith(".vector_to_parameters"):
        machine.report("CG303", node, f"{quoted(node)} gives each parameter new memory: a replay goes on reading the old")
        machine.gpu_work(node, *bind("vec, parameters", args, kwargs).given(["vec"]))
        return const(None)
    if name.endswith(".parameters_to_vector"):
        machine.gpu_work(node, *args)
        return Tensor("cuda", 1, "float")
    if name in {"torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm"} and args:
        machine.torch.hooks.setdefault(id(args[0]), []).append(("before", Native(lambda _, __: const(None))))
        return args[0]
    if name.startswith("torch.nn.utils.parametrizations."):
        way = kwargs.get("orthogonal_map")
        if (
            name.endswith(".orthogonal")
            and args
            and isinstance(args[0], Object)
            and not (isinstance(way, Host) and way.value == "householder")
        ):
            args[0].slots["__orthogonal__"] = Value()
        return args[0] if args else Value()
    if name.startswith(
        ("torch.cuda.memory", "torch.cuda.mem_", "torch.cuda.reset_", "torch.cuda.max_", "torch.cuda.get_device")
    ):
        return number(mix(name))
    if name.startswith(
        ("torch.cuda.nvtx.", "torch.profiler.", "torch.autograd.profiler.", "torch.library.", "torch.utils.data.")
    ):
        return Object(name, args, kwargs, machine.round)
    return None


def _stream_now(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs, node, args
    if machine.torch.streams:
        return machine.torch.streams[-1][0]
    return machine.torch.capture_stream if machine.inside else Object("torch.cuda.current_stream", [], {}, machine.round)


def _set_stream(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs
    if args and isinstance(args[0], Object):
        if args[0] is machine.torch.capture_stream:
            machine.torch.streams.clear()
        else:
            machine.torch.streams.append((args[0], node))
    return const(None)


def _object(name: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def make(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        made = Object(name, args, kwargs, machine.round)
        made.site, made.call = machine.site(node), node
        return made

    return make


def _default_stream(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs, node
    return Object("torch.cuda.default_stream", [], {}, machine.round)


def _generator(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    where = functions.where_of(machine, args[0] if args else kwargs.get("device", const("cpu")))
    if where != "cpu" and machine.inside:
        machine.report("CG611", node, f"{quoted(node)} makes a generator inside the capture")
    made = Object("torch.Generator", args, kwargs, machine.round)
    made.slots["device"] = device(where)
    return made


def on_generator(machine: Machine, generator: Value, *, on_gpu: bool, node: ast.AST) -> None:
    """An operation draws from a generator of the user's."""
    if (
        not isinstance(generator, Object)
        or generator.name != "torch.Generator"
        or not on_gpu
        or "registered" in generator.slots
    ):
        return
    if generator.made >= machine.round and machine.inside:
        return  # reported where it was made
    where = generator.slots.get("device")
    if isinstance(where, Host) and where.value != "cpu":
        machine.report("CG604", node, f"{quoted(node)} draws from a generator that is not registered with the graph")


def _seed(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    machine.report("CG605", node, f"{quoted(node)} seeds the generator inside the capture")
    return Object("torch.Generator", [], {}, machine.round)


def _set_rng(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    machine.report("CG606", node, f"{quoted(node)} sets the random state at capture only: replays go on from where they are")
    return const(None)


def _flush(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    machine.report("CG502", node, f"{quoted(node)} runs at capture only, and costs time")
    return const(None)


def _clear_casts(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs, node
    machine.torch.autocasts.clear()
    return const(None)


def _checkpoint_sequential(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return _checkpoint(machine, [args[0], *args[2:]], kwargs, node) if len(args) > 2 else Value()


def _checkpoint(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    reentrant = kwargs.get("use_reentrant")
    if machine.torch.graphing and not (isinstance(reentrant, Host) and reentrant.value is False):
        machine.report(
            "CG609",
            node,
            f"{quoted(node)} recomputes by a nested backward, which a graphed callable cannot: use_reentrant=False",
            edits.keyword(node, "use_reentrant", "False"),
        )
    given = {
        key: each
        for key, each in kwargs.items()
        if key not in {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check"}
    }
    return machine.call(args[0], args[1:], given, node) if args else Value()


def _wrapper(how: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def make(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if how == "compile" and machine.torch.calling is not None:
            machine.torch.calling(machine, Value(), how, args, kwargs, node)
        if (
            not args
            or is_none(args[0])
            or not isinstance(args[0], (Function, Bound, Partial, Instance, Object, External, Choice, Native))
        ):
            return Native(lambda given, _: Partial(given[0], [], kwargs, how) if given else Value())
        return Partial(args[0], [], kwargs, how)

    return make


def call_wrapped(machine: Machine, partial: Partial, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call what vmap, grad, compile and their like return."""
    if partial.how == "compile":
        return _call_compiled(machine, partial, args, kwargs, node)
    if partial.how == "graphed":
        if machine.inside:
            machine.report("CG406", node, f"{quoted(node)} replays a graph inside a capture")
        return Tensor() if machine.inside else _call_graphed(machine, partial, args, kwargs, node)
    if partial.how == "autocast":
        return _call_under(machine, partial, args, kwargs, node)
    if partial.how == "vmap":
        args = [Tensor(each.device, None, each.dtype) if isinstance(each, Tensor) else each for each in args]
    found = machine.call(partial.function, args, kwargs, node)
    if partial.how in {"grad", "vmap", "jacrev", "jacfwd", "hessian"}:
        if partial.how == "grad" and args and isinstance(args[0], (Mapping, Sequence)):
            return args[0]
        return found if isinstance(found, (Tensor, Sequence, Mapping)) and partial.how == "vmap" else Tensor("", None, "float")
    if partial.how in {"grad_and_value", "value_and_grad", "vjp", "jvp"}:
        return Sequence("tuple", [Tensor(), found], machine.round)
    return found


def _call_graphed(machine: Machine, partial: Partial, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A replay through a graphed callable: its outputs are the same tensors each time."""
    machine.torch.graphed_called = True
    if machine.torch.calling is not None:
        machine.torch.calling(machine, partial, "graphed", args, kwargs, node)
    if id(partial) not in machine.torch.outputs:
        made = machine.call(partial.function, args, kwargs, node)
        for tensor in tensors_in(made):
            tensor.layout = "graphed"
        machine.torch.outputs[id(partial)] = made
    return machine.torch.outputs[id(partial)]


def _call_under(machine: Machine, partial: Partial, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    context = partial.args[0] if partial.args else None
    depth = len(machine.torch.autocasts)
    if isinstance(context, Object) and context.site is not None and caches(context) and not machine.inside:
        machine.torch.autocasts.append((context, context.site))
    try:
        return machine.call(partial.function, args, kwargs, node)
    finally:
        del machine.torch.autocasts[depth:]


def caches(context: Object) -> bool:
    """Whether an autocast block keeps the casts of weights."""
    off = [context.kwargs.get(name) for name in ("cache_enabled", "enabled")]
    off += context.args[2:4]
    kind = context.args[0] if context.args else context.kwargs.get("device_type")
    if isinstance(kind, Host) and kind.value == "cpu":
        return False
    return not any(isinstance(each, Host) and each.value is False for each in off)


def _call_compiled(machine: Machine, partial: Partial, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    mode = partial.kwargs.get("mode")
    graphs = isinstance(mode, Host) and mode.value in {"reduce-overhead", "max-autotune"}
    if machine.inside:
        if graphs:
            machine.report("CG406", node, f"{quoted(node)} replays CUDA graphs of its own inside the capture")
        elif machine.torch.script and not getattr(partial, "args", None):
            machine.report("CG407", node, f"{quoted(node)} compiles at its first call, inside the capture")
    else:
        partial.args = [const(True)]
    before = machine.reporting
    machine.reporting = False
    try:
        return machine.call(partial.function, args, kwargs, node)
    finally:
        machine.reporting = before


def _gradients(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    twice = kwargs.get("create_graph")
    graphed = any(tensor.layout == "graphed" for tensor in tensors_in(args[0])) if args else False
    if graphed and isinstance(twice, Host) and twice.value is True and not machine.inside:
        message = f"{quoted(node)} wants a second derivative, which a graphed callable does not have"
        machine.add("CG413", *machine.site(node), message, ())
    machine.gpu_work(node, *args[:1])
    run_backwards(machine, node)
    wanted = args[1] if len(args) > 1 else kwargs.get("inputs", Value())
    if isinstance(wanted, Sequence):
        items = None if wanted.items is None else [_like(each) for each in wanted.items]
        return Sequence("tuple", items, machine.round, Tensor("", None, "float"))
    return Sequence("tuple", [_like(wanted)], machine.round)


def _like(found: Value) -> Value:
    return Tensor(found.device, found.ndim, "float") if isinstance(found, Tensor) else Tensor("", None, "float")


def run_backwards(machine: Machine, node: ast.AST) -> None:
    """Backward reaches the user's own autograd functions and hooks."""
    if machine.inside and machine.reporting and not machine.quiet:
        for product, place, via in machine.torch.products:
            machine.add("CG211", *place, f"the backward of {quoted(product)} looks for zeros, whose number the host reads", via)
    backwards, machine.torch.backwards = machine.torch.backwards, []
    for backward, context in reversed(backwards):
        machine.call(backward, [context, Tensor("", None, "float"), Tensor("", None, "float")], {}, node)
    hooks, machine.torch.tensor_hooks = machine.torch.tensor_hooks, []
    for hook in [*hooks, *(machine.torch.lasting_hooks if machine.inside else [])]:
        machine.call(hook, [Tensor("", None, "float")], {}, node)


def _functional_call(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    given = args[2] if len(args) > 2 else kwargs.get("args", Value())
    inner = list(given.items or []) if isinstance(given, Sequence) else [given]
    if len(args) > 1:
        machine.use(args[1])
    return machine.call(args[0], inner, {}, node) if args else Value()


def _clip(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    strict = kwargs.get("error_if_nonfinite") or (args[3] if len(args) > 3 else None)
    if isinstance(strict, Host) and strict.value is True:
        machine.report(
            "CG230",
            node,
            f"{quoted(node)} tests the norm on the host: error_if_nonfinite=True",
            edits.keyword(node, "error_if_nonfinite", "False"),
        )
    largest = args[1] if len(args) > 1 else kwargs.get("max_norm")
    if isinstance(largest, Tensor) and largest.on_gpu:
        machine.report("CG217", node, f"{quoted(node)} needs the value of a GPU tensor as a Python number")
    machine.gpu_work(node, *args[1:2])
    return Tensor("cuda", 0, "float")


def _total_norm(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return _clip(
        machine,
        args[:1],
        {"error_if_nonfinite": kwargs.get("error_if_nonfinite", args[2] if len(args) > 2 else const(None))},
        node,
    )


def _update_bn(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    machine.report("CG232", node, f"{quoted(node)} averages over all batches, whose count the layers read on the host")
    return const(None)


def _graph_callables(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if machine.inside:
        machine.report("CG406", node, f"{quoted(node)} captures inside a capture")
        return Value()
    given = args[0] if args else kwargs.get("callables", Value())
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
        items: Args | None = None if given.items is None else [Partial(each, [], {}, "graphed") for each in given.items]
        return Sequence("tuple", items, machine.round, given.rest)
    return Partial(given, [], {}, "graphed")


def _finfo(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs, node
    return Object("torch.finfo", args, {}, machine.round)


def _device(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs, node
    return device(functions.where_of(machine, args[0])) if args else device("")


def _capturing(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    message = f"{quoted(node)} keeps GPU work out of the capture: replays leave it out for ever"
    return const(machine.inside and machine.reporting, machine.origin("CG115", node, message))


def _parameter(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs, node, machine
    source = args[0] if args else None
    made = Tensor(
        source.device if isinstance(source, Tensor) else "cuda", source.ndim if isinstance(source, Tensor) else None, "float"
    )
    made.parameter = "parameter"
    if isinstance(source, Tensor):
        made.first = source.first
    return made


def _buffer(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = _parameter(machine, args, kwargs, node)
    if isinstance(made, Tensor):
        made.parameter = "buffer"
    return made


def _default_device(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs, node
    machine.torch.default_device = functions.where_of(machine, args[0]) if args else "cpu"
    return const(None)


def _cond(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs
    inner = args[3].each() if len(args) > 3 and isinstance(args[3], Sequence) else []
    results = [machine.call(branch, inner, {}, node) for branch in args[1:3]]
    return joined(results, machine.round) or Value()


def _anomaly(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = Object("torch.autograd.set_detect_anomaly", args, kwargs, machine.round)
    on = args[0] if args else None
    if isinstance(on, Host) and on.value is True and machine.inside and not _is_context(machine, node):
        machine.report("CG231", node, f"{quoted(node)} checks every gradient for NaN on the host")
    return made


def _is_context(machine: Machine, node: ast.AST) -> bool:
    for statement in ast.walk(machine.frame.module.tree):
        if isinstance(statement, ast.With) and any(item.context_expr is node for item in statement.items):
            return True
    return False


def _sparse(layout: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def make(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        where = next((tensor.device for each in args for tensor in tensors_in(each)), "cuda")
        if layout == "sparse" and where != "cpu":
            machine.gpu_work(node, *args)
        made = Tensor(where, 2)
        made.layout = layout
        del kwargs
        return made

    return make


def _pack(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    lengths = args[1] if len(args) > 1 else kwargs.get("lengths")
    if isinstance(lengths, Tensor) and lengths.on_gpu:
        machine.report("CG203", node, f"{quoted(node)} needs the lengths on the host")
    in_order = kwargs.get("enforce_sorted") or (args[3] if len(args) > 3 else None)
    if isinstance(in_order, Host) and in_order.value is False:
        machine.report("CG221", node, f"{quoted(node)} copies the order of the lengths to the GPU: enforce_sorted=False")
    return Object("torch.nn.utils.rnn.PackedSequence", args, kwargs, machine.round)


def _known(found: object) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def give(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        del machine, args, kwargs, node
        return const(found)

    return give


_FUNCTIONS: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    "torch.cuda.current_stream": _stream_now, "torch.cuda.default_stream": _default_stream,
    "torch.cuda.stream": _object("torch.cuda.stream"), "torch.cuda.graph": _object("torch.cuda.graph"),
    "torch.cuda.set_stream": _set_stream, "torch.cuda.current_device": _known(0), "torch.cuda.is_available": _known(True),
    "torch.cuda.device_count": _known(1), "torch.cuda.is_current_stream_capturing": _capturing,
    "torch.cuda.empty_cache": _flush, "torch.cuda.reset_peak_memory_stats": _flush, "torch.cuda.memory.empty_cache": _flush, "torch.cuda.ipc_collect": _flush,
    "torch.cuda.make_graphed_callables": _graph_callables,
    "transformer_engine.pytorch.make_graphed_callables": _graph_callables,
    "transformer_engine.pytorch.graph.make_graphed_callables": _graph_callables,
    "torch.Generator": _generator, "torch.cuda.manual_seed": _seed, "torch.cuda.manual_seed_all": _seed, "torch.manual_seed": _seed,
    "torch.random.manual_seed": _seed, "torch.seed": _seed, "torch.cuda.seed": _seed,
    "torch.set_rng_state": _known(None), "torch.cuda.set_rng_state": _set_rng, "torch.random.set_rng_state": _known(None),
    "torch.random.fork_rng": _object("torch.random.fork_rng"), "torch.cuda.get_rng_state": _object("torch.ByteTensor"),
    "torch.get_rng_state": _object("torch.ByteTensor"), "torch.initial_seed": _known(0), "torch.cuda.initial_seed": _known(0),
    "torch.utils.checkpoint.checkpoint": _checkpoint, "torch.autograd.grad": _gradients, "torch.autograd.backward": _gradients,
    "torch.func.functional_call": _functional_call, "torch.nn.utils.stateless.functional_call": _functional_call,
    "torch.nn.utils.clip_grad_norm_": _clip, "torch.nn.utils.clip_grad_value_": _clip,
    "torch.nn.utils.get_total_norm": _total_norm, "torch.optim.swa_utils.update_bn": _update_bn,
    "torch.nn.Transformer.generate_square_subsequent_mask": lambda m, _a, k, _n: Tensor(functions.where_of(m, k.get("device")), 2, "float"),
    "torch.device": _device, "torch.finfo": _finfo, "torch.iinfo": _finfo, "torch.Size": lambda _m, args, _k, _n: args[0] if args else Value(),
    "torch.nn.Parameter": _parameter, "torch.nn.Buffer": _buffer, "torch.nn.parameter.Parameter": _parameter,
    "torch.nn.parameter.Buffer": _buffer, "torch.set_default_device": _default_device,
    "torch.cond": _cond, "torch._higher_order_ops.cond": _cond,
    "torch.autograd.set_detect_anomaly": _anomaly, "torch.autograd.detect_anomaly": _object("torch.autograd.detect_anomaly"),
    "torch.sparse_csr_tensor": _sparse("csr"), "torch.nn.utils.rnn.pack_padded_sequence": _pack,
    "torch.set_grad_enabled": _object("torch.set_grad_enabled"),
    "torch.autograd.graph.save_on_cpu": _object("torch.autograd.graph.save_on_cpu"), "torch.no_grad": _object("torch.no_grad"),
    "torch.autocast": _object("torch.autocast"), "torch.amp.autocast": _object("torch.autocast"),
    "torch.cuda.amp.autocast": _object("torch.autocast"), "torch.amp.autocast_mode.autocast": _object("torch.autocast"),
    "torch.clear_autocast_cache": _clear_casts,
    "torch.utils.checkpoint.checkpoint_sequential": _checkpoint_sequential,
    "torch.inference_mode": _object("torch.inference_mode"), "torch.enable_grad": _object("torch.enable_grad"),
    "torch.is_grad_enabled": lambda _m, _a, _k, _n: Host("bool", sym=mix("grad")),
    "torch.get_default_dtype": lambda _m, _a, _k, _n: Host("dtype", sym=mix("default dtype")),
    "torch.compile": _wrapper("compile"), "torch.vmap": _wrapper("vmap"), "torch.func.vmap": _wrapper("vmap"),
    "torch.func.grad": _wrapper("grad"), "torch.func.jacrev": _wrapper("jacrev"), "torch.func.jacfwd": _wrapper("jacfwd"),
    "torch.func.hessian": _wrapper("hessian"), "torch.func.grad_and_value": _wrapper("grad_and_value"),
    "torch.jit.trace": lambda _m, args, _k, _n: args[0] if args else Value(),
    "torch._dynamo.is_compiling": _known(False), "torch.compiler.is_compiling": _known(False), "torch.jit.is_scripting": _known(False),
    "torch.jit.is_tracing": _known(False), "torch.onnx.is_in_onnx_export": _known(False), "torch.cuda.graph_pool_handle": _known("pool"),
    "torch.compiler.cudagraph_mark_step_begin": _known(None), "torch.cuda.set_device": _known(None),
}  # fmt: skip


# Distributions and collectives ----------------------------------------------------------------------------------------


def _validates(made: Object) -> bool:
    given = made.kwargs.get("validate_args")
    return not (isinstance(given, Host) and given.value is False)


def _distribution(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = Object(name, args, kwargs, machine.round)
    on_gpu = any(tensor.on_gpu for each in (*args, *kwargs.values()) for tensor in tensors_in(each))
    last = name.rsplit(".", 1)[-1]
    if on_gpu and last in ops.ALWAYS_CHECKS and "scale_tril" not in kwargs and machine.inside and not _validates(made):
        machine.report("CG228", node, f"{quoted(node)} reads its arguments on the host even without validation")
    if on_gpu and _validates(made) and machine.inside:
        machine.report(
            "CG228",
            node,
            f"{quoted(node)} checks its arguments on the host: validate_args=False is missing",
            edits.keyword(node, "validate_args", "False"),
        )
    if on_gpu:
        machine.gpu_work(node, *args, *kwargs.values())
    return made


def _of_distribution(machine: Machine, made: Object, name: str, args: Args, node: ast.AST) -> Value:
    parts = [made, *(each for each in made.args if isinstance(each, Object))]
    given = [tensor for each in parts for part in (*each.args, *each.kwargs.values()) for tensor in tensors_in(part)]
    if name in {"sample", "rsample"} and not any(tensor.on_gpu for tensor in given):
        return functions.cpu_random(machine, node)
    machine.gpu_work(node, *args)
    if (
        name == "log_prob"
        and _validates(made)
        and made.made < machine.round
        and any(isinstance(each, Tensor) and each.on_gpu for each in args)
    ):
        machine.report("CG228", node, f"{quoted(node)} checks its argument on the host: validate_args=False is missing")
    if name == "sample" and any(each.name.endswith((".Normal", ".LogNormal")) for each in parts) and not _validates(made):
        machine.report("CG229", node, f"{quoted(node)} checks the standard deviations on the host; rsample() does not")
    if name == "expand":
        return made
    return Tensor("cuda", None, "int" if "Categorical" in made.name and name == "sample" else "float")


def _is_gloo(group: Value | None) -> bool:
    backend = group.kwargs.get("backend") if isinstance(group, Object) else None
    return isinstance(backend, Host) and backend.value == "gloo"


def _same_on_all_ranks(machine: Machine, test: ast.AST) -> bool:
    """Whether both branches of a condition call the same collective, or one sends what the other receives."""
    for node in ast.walk(machine.frame.module.tree):
        if isinstance(node, ast.If) and node.test is test:
            one, other = (_collectives_in(branch) for branch in (node.body, node.orelse))
            names = [each[0] for each in one], [each[0] for each in other]
            if {tuple(names[0]), tuple(names[1])} in ({("send",), ("recv",)}, {("isend",), ("irecv",)}):
                return True
            return names[0] == names[1] and (len(one) == 1 or one == other)
    return False


def _collectives_in(statements: list[ast.stmt]) -> list[tuple[str, str]]:
    calls = [each for statement in statements for each in ast.walk(statement) if isinstance(each, ast.Call)]
    found = [(each.func.attr if isinstance(each.func, ast.Attribute) else "", ast.unparse(each)) for each in calls]
    return [each for each in found if each[0] in ops.COLLECTIVES]


def on_dropped(machine: Machine, made: Value, node: ast.AST) -> None:
    """A statement drops the value of a call."""
    if isinstance(made, Object) and made.name == "torch.distributed.Work":
        machine.report("CG703", node, f"{quoted(node)} drops the handle: nothing orders what follows after the collective")


def rank_origin(machine: Machine, node: ast.AST) -> frozenset[Origin]:
    """A mark for a value that differs from rank to rank."""
    return frozenset((Origin("CG706", *machine.site(node), "depends on the rank", ()),))


def environment(machine: Machine, key: Value, node: ast.AST) -> Value:
    """A variable of the environment."""
    machine.report("CG113", node, f"{quoted(node)} is read at capture only; replays keep what it said then")
    rank = isinstance(key, Host) and key.value in {"RANK", "LOCAL_RANK"}
    return Host("str", sym=mix("environment", key.sym), origins=rank_origin(machine, node) if rank else NONE)


def _collective(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    last = name.rsplit(".", 1)[-1]
    if last in {"barrier", "monitored_barrier"}:
        machine.report("CG701", node, f"{quoted(node)} makes the host wait for all ranks")
    elif last in ops.OBJECT_COLLECTIVES:
        machine.report("CG702", node, f"{quoted(node)} pickles objects and copies them through the host")
    elif last in ops.COLLECTIVES:
        given = tensors_in(Sequence("list", [*args, *kwargs.values()], 0), 4)
        if given and all(not tensor.on_gpu for tensor in given):
            machine.report("CG707", node, f"{quoted(node)} sends CPU tensors: the graph does not hold that")
        machine.gpu_work(node, *args)
        for origins, where, _ in machine.control:
            if where is not None and any(each.id == "CG706" for each in origins) and not _same_on_all_ranks(machine, where):
                machine.report("CG706", where, f"{quoted(where)} lets ranks capture different collectives, or another order")
        group = kwargs.get("group")
        channel = f"NCCL {group.sym if group is not None and not is_none(group) else 0}"
        if not machine.inside:
            machine.torch.warm.add(channel)
        elif machine.torch.script and channel not in machine.torch.warm and not _is_gloo(group):
            machine.report(
                "CG704", node, f"{quoted(node)} is the first collective of its group: the communicator is made in the capture"
            )
        made = Object("torch.distributed.Work", args, kwargs, machine.round)
        handle = kwargs.get("async_op")
        return made if isinstance(handle, Host) and handle.value is True else const(None)
    if last == "new_group":
        return Object(name, args, kwargs, machine.round)
    if last == "get_rank":
        return number(mix(name), rank_origin(machine, node))
    if last == "get_world_size":
        return number(mix(name))
    return Object(name, args, kwargs, machine.round) if last[:1].isupper() else Value(mix(name))


# Attributes and items of objects --------------------------------------------------------------------------------------

_PARAMETERS = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked", "in_proj_weight", "weight_ih_l0", "weight_hh_l0",
               "bias_ih_l0", "bias_hh_l0"}  # fmt: skip


def attribute(machine: Machine, owner: Object, name: str, node: ast.AST) -> Value:
    """What an attribute of a library's object is."""
    if owner.name.startswith("torch.nn.") and name in _PARAMETERS:
        made = Tensor("cuda", 1 if "bias" in name or "running" in name else 2, "float")
        made.parameter = "parameter"
        sparse = owner.kwargs.get("sparse")
        if isinstance(sparse, Host) and sparse.value is True and owner.name.startswith("torch.nn.Embedding"):
            made.layout = "sparse rows"
            machine.torch.sparse_layers.append(owner)
        owner.slots[name] = made
        return made
    if name in {"__class__", "__dict__"}:
        return Value(mix(name, owner.sym))
    if owner.name in {"torch.finfo", "torch.iinfo"}:
        return number(mix(name, *(each.sym for each in owner.args)))
    if owner.name.startswith("torch.nn.") and name in {"training", "sparse", "in_features", "out_features", "eps", "momentum", "p",
                                                      "num_embeddings", "embedding_dim", "padding_idx", "hidden_size", "num_layers"}:  # fmt: skip
        return owner.kwargs.get(name) or Host("bool" if name == "training" else "number", sym=mix(name, owner.sym))
    if owner.name.startswith("torch.nn.") and name == "module" and owner.args:
        return owner.args[0]
    if owner.name.startswith("torch.distributions.") and name in {
        "logits",
        "probs",
        "mean",
        "loc",
        "scale",
        "stddev",
        "variance",
    }:
        return Tensor("cuda", None, "float")
    if owner.name.startswith("torch.optim.swa_utils.") and name == "module":
        return owner.args[0] if owner.args else Value()
    del machine, node
    return Method(owner, name)


def of_class(machine: Machine, owner: Class, name: str) -> Value:
    """What an attribute of a user's class is that it inherits from a library."""
    if name == "apply" and any(each.startswith("torch.autograd") for each in owner.libraries()):
        return Native(lambda args, kwargs: _apply(machine, owner, args, kwargs))
    if name == "__name__":
        return const(owner.name)
    if name in {"__init__", "forward"}:
        return Method(owner, name)
    return Value(mix("of class", owner.name, name))


def _apply(machine: Machine, owner: Class, args: Args, kwargs: Kwargs) -> Value:
    """Run an autograd function of the user's, and remember its backward."""
    forward, backward = owner.find("forward"), owner.find("backward")
    context = Object("torch.autograd.Context", [], {}, machine.round)
    if forward is None:
        return Value()
    wants = isinstance(forward[1], Function) and forward[1].node.args.args and len(forward[1].node.args.args) > len(args)
    found = machine.call(forward[1], [context, *args] if wants or not owner.find("setup_context") else args, kwargs, owner.node)
    if backward is not None and machine.inside:
        machine.torch.backwards.append((backward[1], context))
    return found


def module_attribute(machine: Machine, owner: Instance, name: str, node: ast.AST) -> Value | None:
    """What an attribute of a user's object is that it inherits from a class of a library; None where that is not known."""
    del machine, node
    libraries = owner.cls.libraries()
    if name in {"logger", "device", "dtype"} and any(each.startswith("torch.nn.") for each in libraries):
        return device("cuda") if name == "device" else Host(name)
    if owner.guessed and name == "training":
        return Host("bool", sym=mix("training", owner.sym))
    if (
        any(each.startswith(("torch.", "lightning", "pytorch_lightning", "transformer_engine")) for each in libraries)
        and name in _MODULE_METHODS | _OPTIMIZER_METHODS
    ):
        return Method(owner, name)
    return Method(owner.slots["[]"], name) if "[]" in owner.slots else None


_MODULE_METHODS = {"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "train", "eval", "requires_grad_", "parameters", "buffers",
                   "named_parameters", "named_buffers", "state_dict", "load_state_dict", "register_buffer", "register_parameter",
                   "add_module", "register_module", "register_forward_hook", "register_forward_pre_hook", "modules", "named_modules",
                   "children", "named_children", "apply", "zero_grad", "share_memory", "get_parameter", "get_submodule", "type",
                   "register_full_backward_hook", "compile", "log", "save_hyperparameters", "set_extra_state", "extra_repr",
                   "__call__", "forward"}  # fmt: skip
_OPTIMIZER_METHODS = {"step", "add_param_group"}


_CONTAINERS = {"torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.Sequential"}


def inherit_container(machine: Machine, made: Instance, args: Args, kwargs: Kwargs) -> None:
    """Give an object of a class that inherits from a container of modules what the container was made of."""
    base = next((name for name in made.cls.libraries() if name in _CONTAINERS), "")
    if not base:
        return
    inner = Object(base, args, kwargs, machine.round)
    made.slots["__options__"] = Object("options", args, kwargs, machine.round)
    children = _children(machine, inner)
    if children is not None:
        made.slots["[]"] = children


def module_item(machine: Machine, owner: Instance, index: Value, node: ast.AST) -> Value:
    """What `object[index]` is for a user's object that inherits from a container."""
    if "[]" in owner.slots:
        return expressions.item(machine, owner.slots["[]"], index, node)
    return Value(mix("item", owner.sym, index.sym), index.origins)


def _children(machine: Machine, owner: Object) -> Sequence | Mapping | None:
    """The modules in a Sequential, ModuleList or ModuleDict; the parameters in a ParameterList."""
    if "children" in owner.slots:
        found = owner.slots["children"]
        return found if isinstance(found, (Sequence, Mapping)) else None
    last = owner.name.rsplit(".", 1)[-1]
    if last not in {"Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}:
        return None
    given = owner.args[0] if owner.args else None
    made: Sequence | Mapping
    if last in {"ModuleDict", "ParameterDict"} or (last == "Sequential" and isinstance(given, Mapping)):
        made = Mapping(owner.made, given.rest if isinstance(given, Mapping) else None)
        made.slots.update(given.slots if isinstance(given, Mapping) else {})
        if given is not None and not isinstance(given, Mapping):
            made.rest = Value()
    elif last == "Sequential":
        made = Sequence("list", list(owner.args), owner.made)
    else:
        items = given.items if isinstance(given, Sequence) else [] if given is None else None
        rest = given.rest if isinstance(given, Sequence) else Value()
        made = Sequence("list", items, owner.made, rest)
    if last.startswith("Parameter"):
        for each in made.each():
            if isinstance(each, Tensor):
                each.parameter = "parameter"
    owner.slots["children"] = made
    del machine
    return made


def object_item(machine: Machine, owner: Object, index: Value, node: ast.AST) -> Value:
    """What `object[index]` is for a library's object."""
    inner = _children(machine, owner)
    if inner is not None:
        if isinstance(inner, Mapping) and python.key_of(index) is None and isinstance(index, Tensor) and index.on_gpu:
            machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as a Python index")
        return expressions.item(machine, inner, index, node)
    if owner.name.startswith("os.environ"):
        machine.report("CG113", node, f"{quoted(node)} is read at capture only; replays keep what it said then")
        return Host("str")
    return Value(mix("item", owner.sym, index.sym), index.origins)


def object_items(machine: Machine, owner: Value, node: ast.AST, count: int | None) -> Args | None:
    """The items of a library's or a user's object, where they are known one by one."""
    if isinstance(owner, Object):
        inner = _children(machine, owner)
        if inner is not None:
            return expressions.items(machine, inner, node, count)
        if owner.name == "generator":
            found: Args = []

            def keep(each: Value) -> int:
                found.append(each)
                return 0

            machine.run_generator(owner, keep)
            return found
        if owner.name in {"builtins.iter", "itertools.cycle"} and machine.inside and owner.made < machine.round:
            machine.report(
                "CG105", node, f"{quoted(node)} advances an iterator at capture only; every replay repeats what it gave then"
            )
        if owner.name == "builtins.iter" and owner.args:
            return expressions.items(machine, owner.args[0], node, count)
        return None
    if isinstance(owner, Instance):
        if "[]" in owner.slots:
            return expressions.items(machine, owner.slots["[]"], node, count)
        if any(name.endswith("NamedTuple") for name in owner.cls.libraries()):
            return list(owner.slots.values())
        method = owner.cls.find("__iter__")
        if method:
            made = machine.call(Bound(owner, method[1]), [], {}, node)
            return expressions.items(machine, made, node, count) if made is not owner else None
    return None


def any_item(machine: Machine, owner: Value, node: ast.AST) -> Value:
    """Any item of a library's or a user's object."""
    known = object_items(machine, owner, node, None) if not (isinstance(owner, Object) and owner.name == "generator") else None
    if known:
        return joined(known, machine.round) or Value()
    if isinstance(owner, Object) and (inner := _children(machine, owner)) is not None and isinstance(inner, Sequence):
        return expressions.item_of(machine, inner, node)
    return Value(mix("each", owner.sym))


def truth(found: Object) -> bool | None:
    """The truth of a library's object."""
    return True if found.name.startswith(("torch.nn.", "torch.optim.", "torch.cuda.")) else None


def length(found: Value) -> Value:
    """The length of a library's or a user's object."""
    if isinstance(found, Object) and isinstance(found.slots.get("children"), (Sequence, Mapping)):
        inner = found.slots["children"]
        if isinstance(inner, Sequence) and inner.items is not None:
            return const(len(inner.items))
        if isinstance(inner, Mapping) and inner.rest is None:
            return const(len(inner.slots))
    if isinstance(found, Object) and found.name == "torch.nn.Sequential":
        return const(len(found.args))
    return number(mix("len", found.sym))


# Modules --------------------------------------------------------------------------------------------------------------


def call_module(machine: Machine, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a module of the user's: hooks, then forward."""
    found = owner.cls.find("forward")
    own = owner.slots.get("forward")
    hooks = machine.torch.hooks.get(id(owner), [])
    for kind, hook in hooks:
        if kind == "before":
            given = machine.call(hook, [owner, Sequence("tuple", args, machine.round)], {}, node)
            args = _replaced(given, args)
    if own is not None:
        result = machine.call(own, args, kwargs, node)
    elif found:
        result = machine.call(expressions.bound(machine, found[1], owner), args, kwargs, node)
    elif base := next(
        (each for each in owner.cls.libraries() if each.startswith("torch.nn.") and each != "torch.nn.Module"), ""
    ):
        result = _inherited(machine, owner, base, args, kwargs, node)
    else:
        machine.gpu_work(node, *args)
        result = Tensor("") if any(name.startswith("torch.nn.") for name in owner.cls.libraries()) else Value()
    for kind, hook in hooks:
        if kind == "after":
            given = machine.call(hook, [owner, Sequence("tuple", args, machine.round), result], {}, node)
            result = result if is_none(given) or type(given) is Value else given
    return result


def _inherited(machine: Machine, owner: Instance, base: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call what a user's layer inherits from one of torch's."""
    given = owner.slots.get("__options__")
    made = Object(
        base, given.args if isinstance(given, Object) else [], given.kwargs if isinstance(given, Object) else {}, owner.made
    )
    made.slots = {name: each for name, each in owner.slots.items() if name in {"training", "momentum", "children"}}
    return _layer_result(machine, made, base.rsplit(".", 1)[-1], args, kwargs, node)


def _replaced(given: Value, args: Args) -> Args:
    if isinstance(given, Sequence) and given.items is not None:
        return list(given.items)
    return [given] if isinstance(given, Tensor) else args


def call_object(machine: Machine, owner: Object, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call an object of a library: a module, a decorator, a loss."""
    name = owner.name
    if name.startswith(("torch.nn.", "transformer_engine.", "torchvision.")):
        return _call_layer(machine, owner, args, kwargs, node)
    if name in {"torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.autocast", "torch.set_grad_enabled",
                "functools.lru_cache"}:  # fmt: skip
        if name == "functools.lru_cache" and args and isinstance(args[0], Function):
            args[0].memo = {}
        if name in {"torch.no_grad", "torch.inference_mode"} and args and isinstance(args[0], Function):
            args[0].marks |= {"no_grad"}
        if name == "torch.autocast" and args:
            return Partial(args[0], [owner], {}, "autocast")
        return args[0] if args else Value()
    if name == "torch.optim.swa_utils.AveragedModel" and owner.args:
        return machine.call(owner.args[0], args, kwargs, node)
    if any(isinstance(each, Tensor) and each.on_gpu for each in args):
        machine.gpu_work(node, *args, *kwargs.values())
        return Tensor("") if name.startswith("torch") else Value()
    if name.startswith("builtins."):
        return Value()
    parts = [*args, *kwargs.values()]
    return Value(mix("call", owner.sym, *(each.sym for each in parts)), origins_of(parts))


def _call_layer(machine: Machine, owner: Object, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    last = owner.name.rsplit(".", 1)[-1]
    hooks = machine.torch.hooks.get(id(owner), [])
    for kind, hook in hooks:
        if kind == "before":
            args = _replaced(machine.call(hook, [owner, Sequence("tuple", args, machine.round)], {}, node), args)
    result = _layer_result(machine, owner, last, args, kwargs, node)
    for kind, hook in hooks:
        if kind == "after":
            given = machine.call(hook, [owner, Sequence("tuple", args, machine.round), result], {}, node)
            result = result if is_none(given) or type(given) is Value else given
    return result


def _layer_result(machine: Machine, owner: Object, last: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    inner = _children(machine, owner)
    if last == "Sequential" and isinstance(inner, (Sequence, Mapping)):
        result = args[0] if args else Value()
        for each in inner.each():
            result = machine.call(each, [result], {}, node)
        return result
    if last in {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"} and owner.args:
        if last == "DistributedDataParallel":
            _call_ddp(machine, owner, node)
        return machine.call(owner.args[0], args, kwargs, node)
    machine.gpu_work(node, *args, *kwargs.values(), *(each for _, each in own_tensors(machine, owner)))
    for name, held in list(owner.slots.items()):
        if isinstance(held, Host) and name != "training":
            machine.sink(machine.read(owner, name, held, node), node=node)
    for _, each in own_tensors(machine, owner):
        if not each.frozen:
            machine.torch.trained |= each.storages
    library = (
        "cuBLAS"
        if last in {"Linear", "Bilinear", "MultiheadAttention", "TransformerEncoderLayer", "GRUCell", "LSTMCell"}
        else ("cuDNN" if last.startswith(("Conv", "LSTM", "GRU", "RNN")) else "")
    )
    if library:
        (machine.torch.cold if machine.inside else machine.torch.warm).add(library)
    if last.startswith("Lazy") and "ready" not in owner.slots:
        owner.slots["ready"] = const(True)
        if machine.inside:
            machine.torch.lazy.append(machine.site(node))
    if "__orthogonal__" in owner.slots:
        machine.report(
            "CG220",
            node,
            f"{quoted(node)} makes its orthogonal weight by matrix_exp at every call, which chooses its scaling on the host",
        )
    _layer_hazards(machine, owner, last, args, kwargs, node)
    main = next((each for each in args if isinstance(each, Tensor)), None)
    where = main.device if main is not None else ""
    ndim = main.ndim if main is not None else None
    if last in {"LSTM", "GRU", "RNN"}:
        state: Value = Tensor(where, ndim, "float")
        if last == "LSTM":
            state = Sequence("tuple", [Tensor(where, ndim, "float"), Tensor(where, ndim, "float")], machine.round)
        return Sequence("tuple", [Tensor(where, ndim, "float"), state], machine.round)
    if last == "LSTMCell":
        return Sequence("tuple", [Tensor(where, ndim, "float"), Tensor(where, ndim, "float")], machine.round)
    if last == "MultiheadAttention":
        return Sequence("tuple", [Tensor(where, ndim, "float"), Tensor(where, ndim, "float")], machine.round)
    if last.endswith("Loss"):
        reduction = owner.kwargs.get("reduction")
        return Tensor(where, 0 if not isinstance(reduction, Host) or reduction.value != "none" else None, "float")
    if last in {"Identity", "Flatten", "Unflatten"} and main is not None:
        return main.view(main.ndim if last == "Identity" else None)
    made = Tensor(
        where, ndim + 1 if last == "Embedding" and ndim is not None else None if last == "EmbeddingBag" else ndim, "float"
    )
    if machine.inside:
        machine.born |= made.storages
    return made


def _call_ddp(machine: Machine, owner: Object, node: ast.AST) -> None:
    count = owner.slots.get("calls")
    calls = count.value if isinstance(count, Host) and isinstance(count.value, int) else 0
    if not machine.inside:
        owner.slots["calls"] = const(calls + 1)
        machine.torch.ddp_calls += calls < 11
    elif machine.torch.script and not machine.torch.no_grad and not machine.torch.graphing:
        if calls < 11 and not machine.hurried:
            machine.report(
                "CG705", node, f"{quoted(node)} is captured after {calls} steps: DDP needs 11, in which it rebuilds its buckets"
            )
        if "on default stream" in owner.slots:
            machine.report_at(
                "CG705", owner, "this DDP is built on the default stream, which its gradient hooks then belong to"
            )


def _training(owner: Object) -> bool:
    mode = owner.slots.get("training")
    return not (isinstance(mode, Host) and mode.value is False)


def _option(owner: Object, name: str, place: int) -> Value | None:
    if name in owner.slots:
        return owner.slots[name]
    return owner.kwargs.get(name) or (owner.args[place] if place < len(owner.args) else None)


def _given(found: Value | None) -> bool:
    """Whether an argument is given and not known to be None."""
    return found is not None and not is_none(found)


def _mask_hazards(machine: Machine, owner: Object, last: str, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """Transformer stacks compare their mask with a causal one; in eval mode they make nested tensors of padded batches."""
    names = {"TransformerEncoder": ("mask", "is_causal", 1), "TransformerDecoder": ("tgt_mask", "tgt_is_causal", 2)}.get(last)
    if names is None:
        return
    mask = kwargs.get(names[0]) or (args[names[2]] if len(args) > names[2] else None)
    if _given(mask) and names[1] not in kwargs:
        machine.report("CG215", node, f"{quoted(node)} compares its mask with a causal one on the host: {names[1]}= is missing")
    nested, mode = _option(owner, "enable_nested_tensor", 3), owner.slots.get("training")
    off = isinstance(nested, Host) and nested.value is False
    evaluates = isinstance(mode, Host) and mode.value is False
    if last == "TransformerEncoder" and _given(kwargs.get("src_key_padding_mask")) and evaluates and not off:
        machine.report(
            "CG227", node, f"{quoted(node)} makes a nested tensor of the padded batch: enable_nested_tensor=False is missing"
        )


def _layer_hazards(machine: Machine, owner: Object, last: str, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    _mask_hazards(machine, owner, last, args, kwargs, node)
    if last == "AdaptiveLogSoftmaxWithLoss":
        machine.report("CG211", node, f"{quoted(node)} sorts targets into clusters, whose sizes the host reads")
    if last == "GaussianNLLLoss":
        machine.report("CG202", node, f"{quoted(node)} asks on the host whether a variance is negative")
    if last.startswith(("BatchNorm", "SyncBatchNorm", "InstanceNorm")):
        momentum, tracks = _option(owner, "momentum", 2), _option(owner, "track_running_stats", 4)
        tracked = not (isinstance(tracks, Host) and tracks.value is False)
        if momentum is not None and is_none(momentum) and _training(owner) and tracked and last.startswith("Batch"):
            machine.report_at(
                "CG232", owner, "momentum=None makes this layer average over all batches, whose count it reads on the host"
            )
            machine.report(
                "CG232", node, f"{quoted(node)} averages over all batches (momentum=None), whose count it reads on the host"
            )
    if last in {"LSTM", "GRU", "RNN"}:
        dropout, layers = _option(owner, "dropout", 5), _option(owner, "num_layers", 2)
        drops = isinstance(dropout, Host) and dropout.known and isinstance(dropout.value, (int, float)) and dropout.value > 0
        deep = not isinstance(layers, Host) or not layers.known or (isinstance(layers.value, int) and layers.value > 1)
        frozen = machine.torch.no_grad > 0 or all(each.frozen for _, each in own_tensors(machine, owner))
        if drops and deep and layers is not None and _training(owner) and frozen:
            machine.report_at("CG610", owner, "dropout between the layers needs state that cuDNN makes on the host")
            machine.report(
                "CG610", node, f"{quoted(node)} runs cuDNN's dropout between layers, whose state is made on the host"
            )
    if last == "CTCLoss":
        machine.report("CG226", node, f"{quoted(node)} copies its lengths between host and GPU")


def children_of(machine: Machine, owner: Value) -> Args:
    """The modules right below a module."""
    if isinstance(owner, Object):
        inner = _children(machine, owner)
        if inner is not None:
            return inner.each()
        return [each for each in owner.args if isinstance(each, (Instance, Object)) and _is_module(each)]
    if isinstance(owner, Instance):
        own = owner.slots.get("[]")
        held = own.each() if isinstance(own, (Sequence, Mapping)) else []
        return [each for each in (*owner.slots.values(), *held) if _is_module(each)]
    return []


def _is_module(found: Value) -> bool:
    if isinstance(found, Object):
        return found.name.startswith(("torch.nn.", "transformer_engine.")) and not found.name.startswith("torch.nn.utils")
    return isinstance(found, Instance) and any(name.startswith("torch.nn.") for name in found.cls.libraries())


def all_modules(machine: Machine, owner: Value) -> Args:
    """A module and all below it."""
    found: Args = []
    waiting = [owner]
    while waiting and len(found) < 400:
        each = waiting.pop(0)
        if any(each is known for known in found):
            continue
        found.append(each)
        waiting += children_of(machine, each)
    return found


def own_tensors(machine: Machine, owner: Value) -> list[tuple[str, Tensor]]:
    """Parameters and buffers that a module itself holds."""
    if isinstance(owner, Instance):
        return [(name, each) for name, each in owner.slots.items() if isinstance(each, Tensor) and each.parameter]
    if isinstance(owner, Object):
        last = owner.name.rsplit(".", 1)[-1]
        inner = _children(machine, owner)
        if inner is not None:
            return [("parameter", each) for each in inner.each() if isinstance(each, Tensor)]
        if last in _WITHOUT_PARAMETERS or last.endswith("Loss"):
            return []
        for name in ("weight", "bias"):
            if name not in owner.slots:
                attribute(machine, owner, name, ast.Pass())
        return [(name, each) for name, each in owner.slots.items() if isinstance(each, Tensor)]
    return []


_WITHOUT_PARAMETERS = {"ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "Softmax", "Dropout", "Identity", "Flatten", "MaxPool2d", "AvgPool2d",
                       "AdaptiveAvgPool2d", "LeakyReLU", "ELU", "Upsample", "Dropout2d", "LogSoftmax", "Softplus", "AdaptiveAvgPool1d"}  # fmt: skip


def tensors_of(machine: Machine, owner: Value, kind: str = "") -> list[Tensor]:
    """Parameters and buffers of a module and all below it."""
    return [
        each
        for module in all_modules(machine, owner)
        for _, each in own_tensors(machine, module)
        if not kind or (each.parameter or "parameter") == kind
    ]


# Methods --------------------------------------------------------------------------------------------------------------


def method(machine: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """What a method of a library's object returns, or one that a user's object inherits."""
    if type(owner).__name__ == "Super":
        return _super_method(machine, owner, name, args, kwargs, node)
    if isinstance(owner, Instance) or _is_module(owner):
        if isinstance(owner, Instance) and name in _OPTIMIZER_METHODS | {"zero_grad"} and "param_groups" in owner.slots:
            return _zero_grad(machine, owner, args, kwargs, node) if name == "zero_grad" else const(None)
        return _module_method(machine, owner, name, args, kwargs, node)
    if not isinstance(owner, Object):
        return Value()
    if machine.torch.calling is not None:
        machine.torch.calling(machine, owner, name, args, kwargs, node)
    for prefix, run in _METHODS:
        if owner.name.startswith(prefix):
            return run(machine, owner, name, args, kwargs, node)
    if owner.name.startswith("pathlib.") and name in {"read_text", "read_bytes", "exists", "is_file", "open", "stat"}:
        machine.report("CG113", node, f"{quoted(node)} is read at capture only; replays keep what it said then")
        if machine.torch.files_change and name.startswith("read_"):
            message = (
                f"{quoted(node)} reads a file that other code writes between calls; the graph keeps what it said at capture"
            )
            return Host("str", origins=machine.origin("CG102", node, message))
    if owner.name.startswith("pathlib.") and name.startswith("write_") and not machine.inside and machine.round:
        machine.torch.files_change = True
    if (owner.name.startswith("pathlib.") and name.startswith("write_")) or (
        owner.name in {"builtins.open", "io.StringIO"} and name.startswith("write")
    ):
        machine.report("CG108", node, f"{quoted(node)} writes at capture only, not at a replay")
        return const(None)
    if owner.name.startswith("pathlib."):
        return Object("builtins.open" if name == "open" else "pathlib.Path", [owner, *args], kwargs, machine.round)
    if owner.name == "logging.Logger" and name == "setLevel" and args and isinstance(args[0], External):
        owner.slots["level"] = const(args[0].name.rsplit(".", 1)[-1])
    if owner.name == "logging.Logger":
        level = owner.slots.get("level")
        machine.torch.log_level = str(level.value) if isinstance(level, Host) else ""
        return python.logged(machine, name, args, node)
    if owner.name in {"random.Random", "numpy.random.Generator"}:
        if owner.made >= machine.round and owner.args:
            return Host(
                "number", sym=mix(name, getattr(node, "lineno", 0))
            )  # seeded in the same call: the same numbers each time
        return python.drawn(machine, "CG601" if owner.name == "random.Random" else "CG602", name, args, node)
    if owner.name == "contextlib.ExitStack" and name == "enter_context" and args and isinstance(args[0], Object):
        if args[0].name == "torch.autocast" and caches(args[0]):
            machine.torch.autocasts.append((args[0], machine.site(node)))
        return args[0]
    if owner.name.endswith("contextvars.ContextVar"):
        return _of_context_variable(machine, owner, name, args, node)
    if owner.name == "types.SimpleNamespace" and name in owner.slots:
        return machine.call(owner.slots[name], args, kwargs, node)
    parts = [*args, *kwargs.values()]
    if machine.inside:
        for each in parts:
            machine.use(each)
    return Value(mix(name, owner.sym, *(each.sym for each in parts)), origins_of(parts))


def _of_context_variable(machine: Machine, owner: Object, name: str, args: Args, node: ast.AST) -> Value:
    if name == "set":
        machine.write(owner, "value", args[0] if args else Value(), node)
        return Value()
    default = owner.kwargs.get("default", args[0] if args else Value())
    return machine.read(owner, "value", owner.slots.get("value", default), node)


def _super_method(machine: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    receiver = getattr(owner, "receiver", None)
    if not isinstance(receiver, Instance):
        return Value()
    if name == "__init__":
        receiver.slots["__options__"] = Object("options", args, kwargs, machine.round)
        inherit_container(machine, receiver, args, kwargs)
        if any(each.startswith("torch.optim") for each in receiver.cls.libraries()) and args:
            defaults = args[1] if len(args) > 1 else kwargs.get("defaults", Mapping(machine.round))
            options = dict(defaults.slots) if isinstance(defaults, Mapping) else {}
            _give_groups(machine, receiver, args[0], options)
        return const(None)
    if name == "__setattr__" and len(args) == 2 and isinstance(args[0], Host) and isinstance(args[0].value, str):
        machine.write(receiver, args[0].value, args[1], node)
        return const(None)
    if name in {"forward", "__call__"}:
        base = next(
            (each for each in receiver.cls.libraries() if each.startswith("torch.nn.") and each != "torch.nn.Module"), ""
        )
        if base:
            return _inherited(machine, receiver, base, args, kwargs, node)
        return call_module(machine, receiver, args, kwargs, node) if name == "__call__" else Value()
    if "[]" in receiver.slots:
        return functions.call_method(machine, receiver.slots["[]"], name, args, kwargs, node)
    return _module_method(machine, receiver, name, args, kwargs, node)


def _module_method(machine: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    run = _MODULE.get(name)
    if run is not None:
        if machine.torch.calling is not None:
            machine.torch.calling(machine, owner, name, args, kwargs, node)
        return run(machine, owner, args, kwargs, node)
    if name in {"forward", "__call__"}:
        return machine.call(owner, args, kwargs, node)
    if isinstance(owner, Object) and name in {
        "append",
        "extend",
        "insert",
        "items",
        "keys",
        "values",
        "pop",
        "update",
        "clear",
    }:
        inner = _children(machine, owner)
        return python.method(machine, inner, name, args, kwargs, node) if inner is not None else Value()
    if isinstance(owner, Instance) and "[]" in owner.slots:
        return functions.call_method(machine, owner.slots["[]"], name, args, kwargs, node)
    return Value(mix(name, owner.sym, *(each.sym for each in args)), origins_of(args))


def _moved(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    where = ""
    for each in (*args, *kwargs.values()):
        if isinstance(each, Tensor):
            where = each.device
        elif isinstance(each, Host) and each.kind not in {"dtype", "bool"}:
            where = functions.where_of(machine, each)
    where = where or ("cuda" if args or kwargs else "")
    new = isinstance(owner, (Object, Instance)) and owner.made >= machine.round and where.startswith("cuda")
    if new and any(tensor.device != where or isinstance(owner, Object) for tensor in tensors_of(machine, owner)):
        machine.report("CG221", node, f"{quoted(node)} copies the weights of a new module to the GPU")
    _move_all(machine, owner, where)
    return owner


def _move_all(machine: Machine, owner: Value, where: str) -> None:
    for each in tensors_of(machine, owner):
        if where:
            each.device = where


def _to_gpu(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs, node
    _move_all(machine, owner, "cuda")
    return owner


def _to_cpu(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs, node
    _move_all(machine, owner, "cpu")
    return owner


def _itself(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del machine, args, kwargs, node
    return owner


def _requires_grad(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    off = args[0] if args else kwargs.get("requires_grad")
    for tensor in tensors_of(machine, owner):
        tensor.frozen = isinstance(off, Host) and off.value is False
    machine.report("CG114", node, f"{quoted(node)} switches gradients at capture only; replays keep what was captured")
    return owner


def _mode(training: bool) -> Callable[[Machine, Value, Args, Kwargs, ast.AST], Value]:
    def set_mode(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        mode = (args[0] if args else kwargs.get("mode", const(training))) if training else const(training)
        for each in all_modules(machine, owner):
            if isinstance(each, Holder):
                machine.write(each, "training", mode, node)
        machine.torch.mode_at[id(owner)] = machine.site(node)
        machine.report("CG114", node, f"{quoted(node)} switches a mode at capture only; replays keep what was captured")
        return owner

    return set_mode


def _parameters(kind: str, *, named: bool) -> Callable[[Machine, Value, Args, Kwargs, ast.AST], Value]:
    def give(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        del args, kwargs, node
        tensors: Args = list(tensors_of(machine, owner, kind))
        if isinstance(owner, Instance) and owner.guessed:
            some = Tensor("cuda", None, "float")
            some.parameter = kind
            each: Value = Sequence("tuple", [Host("str"), some], machine.round) if named else some
            return Sequence("iterator", None, machine.round, each)
        if not named:
            return Sequence("iterator", tensors, machine.round)
        pairs: Args = [Sequence("tuple", [const(f"{kind}{place}"), each], machine.round) for place, each in enumerate(tensors)]
        return Sequence("iterator", pairs, machine.round)

    return give


def _modules(*, deep: bool, named: bool) -> Callable[[Machine, Value, Args, Kwargs, ast.AST], Value]:
    def give(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        del args, kwargs, node
        found = all_modules(machine, owner) if deep else children_of(machine, owner)
        if named:
            found = [Sequence("tuple", [Host("str", sym=mix("module", each.sym)), each], machine.round) for each in found]
        return Sequence("iterator", found, machine.round)

    return give


def _state_dict(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs, node
    made = Mapping(machine.round)
    for place, each in enumerate(tensors_of(machine, owner)):
        made.slots[f"tensor{place}"] = each
    return made


def _register_buffer(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    name = args[0] if args else kwargs.get("name")
    value = args[1] if len(args) > 1 else kwargs.get("tensor", kwargs.get("param", const(None)))
    if isinstance(value, Tensor):
        value.parameter = value.parameter or "buffer"
    if isinstance(owner, Holder) and isinstance(name, Host) and isinstance(name.value, str):
        machine.write(owner, name.value, value, node)
    elif isinstance(owner, Instance) and isinstance(value, Tensor):
        machine.write(owner, "buffer", value, node)
    return const(None)


def _add_module(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs
    if len(args) > 1 and isinstance(owner, Holder) and isinstance(args[0], Host) and isinstance(args[0].value, str):
        machine.write(owner, args[0].value, args[1], node)
    return const(None)


def _hook(when: str) -> Callable[[Machine, Value, Args, Kwargs, ast.AST], Value]:
    def register(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        del kwargs, node
        if args and not machine.inside:
            machine.torch.hooks.setdefault(id(owner), []).append((when, args[0]))
        return Object("torch.utils.hooks.RemovableHandle", [owner, *args[:1]], {}, machine.round)

    return register


def _apply_to(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs
    for each in all_modules(machine, owner)[:12]:
        machine.call(args[0], [each], {}, node) if args else None
    return owner


def _zero_grad(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
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
    """Whether `zero_grad` with these arguments sets gradients to None, which is its default."""
    given = kwargs.get("set_to_none") or (args[0] if args else const(True))
    return isinstance(given, Host) and given.value is True


def _load_state_dict(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del machine, owner, args, kwargs, node
    return const(None)


_MODULE: dict[str, Callable[[Machine, Value, Args, Kwargs, ast.AST], Value]] = {
    "to": _moved, "cuda": _to_gpu, "cpu": _to_cpu, "half": _itself, "float": _itself, "double": _itself, "bfloat16": _itself,
    "share_memory": _itself, "requires_grad_": _requires_grad, "train": _mode(True), "eval": _mode(False), "type": _itself, "compile": _itself,
    "parameters": _parameters("parameter", named=False), "named_parameters": _parameters("parameter", named=True),
    "buffers": _parameters("buffer", named=False), "named_buffers": _parameters("buffer", named=True),
    "modules": _modules(deep=True, named=False), "named_modules": _modules(deep=True, named=True),
    "children": _modules(deep=False, named=False), "named_children": _modules(deep=False, named=True),
    "state_dict": _state_dict, "load_state_dict": _load_state_dict, "register_buffer": _register_buffer,
    "register_parameter": _register_buffer, "add_module": _add_module, "register_module": _add_module,
    "register_forward_hook": _hook("after"), "register_forward_pre_hook": _hook("before"),
    "register_full_backward_hook": _hook("backward"), "apply": _apply_to, "zero_grad": _zero_grad,
}  # fmt: skip


# Optimizers -----------------------------------------------------------------------------------------------------------


def _optimizer(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = Object(name, args, kwargs, machine.round)
    made.site, made.call = machine.site(node), node
    last = name.rsplit(".", 1)[-1]
    if "lr_scheduler" in name or last in {"AveragedModel", "SWALR"}:
        if "lr_scheduler" in name:
            _schedule(machine, made)
        return made
    given = args[0] if args else kwargs.get("params", Value())
    options = {key: each for key, each in kwargs.items() if key != "params"}
    if len(args) > 1:
        options.setdefault("lr", args[1])
    if last == "SGD" and len(args) > 2:
        options.setdefault("momentum", args[2])
    _give_groups(machine, made, given, options)
    return made


def _give_groups(machine: Machine, owner: Holder, given: Value, options: Kwargs) -> None:
    items = given.items if isinstance(given, Sequence) else None
    groups: Args = []
    if items and all(isinstance(each, Mapping) for each in items):
        for each in items:
            group = Mapping(machine.round)
            group.slots = {**options, **(each.slots if isinstance(each, Mapping) else {})}
            groups.append(group)
    else:
        group = Mapping(machine.round)
        group.slots = dict(options)
        group.slots["params"] = Sequence(
            "list", items, machine.round, given.rest if isinstance(given, Sequence) else Tensor("cuda", None, "float")
        )
        groups.append(group)
    for each in groups:
        if isinstance(each, Mapping):
            each.slots.setdefault("lr", number(mix("lr")))
    owner.slots["param_groups"] = Sequence("list", groups, machine.round)
    state = Mapping(machine.round)
    state.factory = External("builtins.dict")
    owner.slots["state"] = state
    owner.slots["defaults"] = Mapping(machine.round)


def groups_of(owner: Value) -> list[Mapping]:
    """The parameter groups of an optimizer."""
    found = owner.slots.get("param_groups") if isinstance(owner, Holder) else None
    return [each for each in found.each() if isinstance(each, Mapping)] if isinstance(found, Sequence) else []


def parameters_of(owner: Value) -> list[Tensor]:
    """The parameters that an optimizer steps."""
    return [each for group in groups_of(owner) for each in tensors_in(group.slots.get("params", Value()))]


def _of_optimizer(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    last = owner.name.rsplit(".", 1)[-1]
    if "lr_scheduler" in owner.name or last == "SWALR":
        return _of_scheduler(machine, owner, name, args, node)
    if last == "AveragedModel":
        if name == "update_parameters":
            machine.report("CG239", node, f"{quoted(node)} counts on the host and copies between CPU and GPU")
            return const(None)
        return _module_method(machine, owner.args[0], name, args, kwargs, node) if owner.args else Value()
    if name == "step":
        return _step(machine, owner, last, args, kwargs, node)
    if name == "zero_grad":
        return _zero_grad(machine, owner, args, kwargs, node)
    if name == "state_dict":
        return Mapping(machine.round, Value())
    return const(None)


def _flag(groups: list[Mapping], name: str) -> list[bool]:
    """For each group, whether an option is on; an unknown one counts as on."""
    found = []
    for group in groups:
        value = group.slots.get(name)
        found.append(value is not None and not (isinstance(value, Host) and value.known and not value.value))
    return found


def _step(machine: Machine, owner: Object, last: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    groups = groups_of(owner)
    closure = args[0] if args else kwargs.get("closure")
    result: Value = const(None)
    if closure is not None and not is_none(closure):
        result = machine.call(closure, [], {}, node)
    _step_hazards(machine, owner, last, groups, node)
    for group in groups:
        for name in ("lr", "momentum", "weight_decay", "betas"):
            if name in group.slots:
                machine.frame.scope.varying, before = machine.frame.scope.varying, machine.frame.scope.varying
                _sink_option(machine, group, name, node)
                machine.frame.scope.varying = before
    _sparse_state(machine, owner, last, groups, node)
    machine.gpu_work(node)
    if machine.inside:
        machine.torch.stepped |= {memory for each in parameters_of(owner) for memory in each.storages}
    if not machine.inside:
        owner.slots["stepped"] = const(True)
    elif machine.torch.script and "stepped" not in owner.slots and _stateful(last, groups):
        machine.report(
            "CG405", node, f"{quoted(node)} is the first step: its state is made inside the graph and made anew at every replay"
        )
    return result


def _stateful(last: str, groups: list[Mapping]) -> bool:
    return last != "SGD" or any(_flag(groups, "momentum"))


def _sink_option(machine: Machine, group: Mapping, name: str, node: ast.AST) -> None:
    """A number of a group that changes from step to step is frozen in the captured step."""
    found = group.slots[name]
    read = machine.read(group, name, found, node)
    if isinstance(found, Tensor):
        return
    if read.origins and id(group) not in machine.torch.scheduled:
        slot = (id(group), name)
        message = f"{quoted(node)} was captured with the {name} of that moment, a Python number that changes between steps"
        machine.emit(machine.origin("CG110", node, message, slot))


def _step_hazards(machine: Machine, owner: Object, last: str, groups: list[Mapping], node: ast.AST) -> None:
    here = quoted(node)

    def both(hazard: str, at_step: str, at_making: str, option: str = "") -> None:
        machine.report(hazard, node, f"{here} {at_step}")
        machine.report_at(hazard, owner, at_making, edits.keyword(owner.call, option, "True") if option else None)

    if last in ops.NEEDS_CAPTURABLE and not all(_flag(groups, "capturable")):
        both(
            "CG235",
            f"steps {last} without capturable=True",
            f"this {last} is stepped in the capture: capturable=True is missing",
            "capturable",
        )
    if last in ops.NO_CAPTURED_FORM:
        both("CG236", f"steps {last}, which reads values on the host and has no captured form", f"{last} has no captured form")
    if last == "Adagrad" and any(_flag(groups, "lr_decay")):
        both(
            "CG112",
            "decays its learning rate by a step count that Python keeps (lr_decay)",
            "lr_decay makes the step count in Python",
        )
    if last in {"SGD", "Adagrad"}:
        for group, fused in zip(groups, _flag(groups, "fused"), strict=True):
            lr = group.slots.get("lr")
            if isinstance(lr, Tensor) and lr.on_gpu and not fused:
                both(
                    "CG238",
                    f"reads a learning rate on the GPU: {last} needs fused=True for it",
                    "lr is a GPU tensor: fused=True is missing",
                    "fused",
                )


def _sparse_state(machine: Machine, owner: Object, last: str, groups: list[Mapping], node: ast.AST) -> None:
    if last not in {"SGD", "Adagrad"} or (last == "SGD" and not any(_flag(groups, "momentum"))):
        return
    if any(tensor.layout == "sparse rows" for group in groups for tensor in tensors_in(group.slots.get("params", Value()))):
        message = f"{quoted(node)} keeps {last} state of sparse gradients, which is bound anew at every step"
        machine.report("CG306", node, message)
        machine.report_at("CG306", owner, f"this {last} keeps state of sparse gradients, which is bound anew at every step")
        held = {
            memory for group in groups for each in tensors_in(group.slots.get("params", Value())) for memory in each.storages
        }
        for layer in (each for each in machine.torch.sparse_layers if held & fingerprint_of(each)):
            machine.report_at("CG306", layer, "sparse=True gives gradients whose optimizer state is bound anew at every step")


def fingerprint_of(layer: Object) -> frozenset[int]:
    """The memory of a layer's weight."""
    weight = layer.slots.get("weight")
    return weight.storages if isinstance(weight, Tensor) else frozenset()


def _schedule(machine: Machine, owner: Object) -> None:
    target = owner.args[0] if owner.args else owner.kwargs.get("optimizer")
    for group in groups_of(target) if target is not None else []:
        lr = group.slots.get("lr")
        if not isinstance(lr, Tensor):
            group.slots["lr"] = number()
    del machine


def _of_scheduler(machine: Machine, owner: Object, name: str, args: Args, node: ast.AST) -> Value:
    if name != "step":
        return Sequence("list", None, machine.round, number())
    machine.report("CG109", node, f"{quoted(node)} runs at capture only: replays keep the learning rate of that moment")
    target = owner.args[0] if owner.args else owner.kwargs.get("optimizer")
    for group in groups_of(target) if target is not None else []:
        if not isinstance(group.slots.get("lr"), Tensor):
            before, machine.inside = machine.inside, False
            if before:
                machine.torch.scheduled.add(id(group))
            machine.write(group, "lr", number(), node)
            machine.inside = before
    del args
    return const(None)


def _of_scaler(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    args = bind("optimizer|outputs", args, kwargs).positional()
    off = owner.kwargs.get("enabled") or (owner.args[5] if len(owner.args) > 5 else None)
    if isinstance(off, Host) and off.value is False:
        return (
            args[0]
            if name == "scale" and args
            else machine.call(Method(args[0], "step"), [], {}, node)
            if name == "step" and args
            else const(None)
        )
    if name == "scale":
        machine.gpu_work(node, *args)
        return (
            functions.elementwise(machine, [args[0]], node)
            if args and isinstance(args[0], Tensor)
            else args[0]
            if args
            else Value()
        )
    if name == "step" and args:
        fused = isinstance(args[0], Object) and bool(groups_of(args[0])) and all(_flag(groups_of(args[0]), "fused"))
        if not fused and not isinstance(args[0], Instance):
            machine.report(
                "CG237", node, f"{quoted(node)} reads on the host whether a gradient is infinite: the optimizer is not fused"
            )
        if fused:
            return machine.call(Method(args[0], "step"), [], {}, node)
        return const(None)
    if name == "get_scale":
        machine.report("CG237", node, f"{quoted(node)} reads the loss scale from the GPU")
        return number()
    return const(None)


# Streams, events, threads ---------------------------------------------------------------------------------------------


def _in_capture(machine: Machine, stream: Value) -> bool:
    return stream is machine.torch.capture_stream or id(stream) in machine.torch.forked


def _of_stream(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
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
    if not machine.inside or not isinstance(other, Object):
        return
    if _in_capture(machine, other):
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


def _of_event(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if name == "record":
        given = args[0] if args else kwargs.get("stream")
        owner.slots["on"] = given if isinstance(given, Object) else _stream_now(machine, [], {}, node)
        owner.slots["round"] = const(machine.round if machine.inside else -1)
    elif name == "wait":
        given = args[0] if args else kwargs.get("stream")
        _waits_for_event(machine, given if isinstance(given, Object) else _stream_now(machine, [], {}, node), owner, node)
    elif name in {"synchronize", "query", "elapsed_time"}:
        machine.torch.inflight.clear()
        machine.report("CG209", node, f"{quoted(node)} waits for, or asks after, an event")
        return number() if name == "elapsed_time" else Host("bool")
    return const(None)


def _of_generator(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    where = owner.slots.get("device")
    if name in {"manual_seed", "seed"}:
        if machine.inside and isinstance(where, Host) and where.value != "cpu" and owner.made < machine.round:
            machine.report("CG605", node, f"{quoted(node)} seeds a generator inside the capture")
        return owner
    if name == "set_state":
        machine.report("CG606", node, f"{quoted(node)} sets the random state at capture only")
    return Value(mix(name))


def _of_graph(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    generator = bind("generator", args, kwargs).first()
    if name == "register_generator_state" and isinstance(generator, Object):
        generator.slots["registered"] = const(True)
    if name == "replay" and machine.inside:
        machine.report("CG406", node, f"{quoted(node)} replays a graph inside a capture")
    if name == "capture_begin" and machine.inside:
        machine.report("CG406", node, f"{quoted(node)} begins a capture inside a capture")
    del owner
    return const("pool") if name == "pool" else const(None)


def _of_thread(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    target = owner.kwargs.get("target") if owner.name == "threading.Thread" else args[0] if args else None
    if name in {"start", "submit", "map"} and target is not None:
        before = machine.gpu_calls
        given = owner.kwargs.get("args") if owner.name == "threading.Thread" else None
        inner = given.each() if isinstance(given, Sequence) else [each for each in args[1:] if name == "submit"] or [Tensor()]
        reporting, machine.reporting = machine.reporting, False
        machine.call(target, inner, {}, node)
        machine.reporting = reporting
        if machine.gpu_calls > before:
            machine.report("CG408", node, f"{quoted(node)} lets another thread use the GPU during the capture")
    if name in {"submit", "map", "result", "join"}:
        return Object("concurrent.futures.Future", args, kwargs, machine.round)
    return const(None)


def _of_work(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del machine, owner, name, args, kwargs, node
    return const(None)


def _of_hook_handle(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs, node
    if name == "remove" and len(owner.args) == 2:
        hooks = machine.torch.hooks.get(id(owner.args[0]), [])
        hooks[:] = [pair for pair in hooks if pair[1] is not owner.args[1]]
    return const(None)


def _of_context(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs, node
    if name == "save_for_backward":
        owner.slots["saved_tensors"] = Sequence("tuple", args, machine.round)
    return const(None)


def _of_drawn(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs
    return _of_distribution(machine, owner, name, args, node)


_METHODS: tuple[tuple[str, Callable[[Machine, Object, str, Args, Kwargs, ast.AST], Value]], ...] = (
    ("torch.optim.", _of_optimizer),
    ("torch.cuda.amp.GradScaler", _of_scaler), ("torch.amp.GradScaler", _of_scaler), ("torch.GradScaler", _of_scaler),
    ("torch.cuda.Stream", _of_stream), ("torch.cuda.current_stream", _of_stream), ("torch.cuda.default_stream", _of_stream),
    ("torch.Stream", _of_stream), ("torch.cuda.Event", _of_event), ("torch.Event", _of_event),
    ("torch.Generator", _of_generator), ("torch.cuda.CUDAGraph", _of_graph), ("torch.distributions.", _of_drawn),
    ("threading.Thread", _of_thread), ("concurrent.futures.Executor", _of_thread), ("torch.distributed.Work", _of_work),
    ("torch.utils.hooks.RemovableHandle", _of_hook_handle), ("torch.autograd.Context", _of_context),
)  # fmt: skip


# Tensors --------------------------------------------------------------------------------------------------------------


def tensor_method(machine: Machine, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Methods of a tensor that are no operation on its values."""
    del kwargs
    if name == "backward":
        if machine.inside:
            machine.torch.backward_at = machine.site(node)
            machine.torch.went_back = True
        else:
            machine.torch.gradients_left = machine.torch.gradients_held = True
        machine.gpu_work(node, owner)
        run_backwards(machine, node)
        return const(None)
    if name.startswith("register_"):
        if args:
            (machine.torch.tensor_hooks if machine.inside else machine.torch.lasting_hooks).append(args[0])
        return Object("torch.utils.hooks.RemovableHandle", [], {}, machine.round)
    if name == "record_stream":
        machine.report("CG501", node, f"{quoted(node)} keeps the block from being used again while the graph lives")
        return const(None)
    if name == "pin_memory":
        machine.report("CG503", node, f"{quoted(node)} allocates pinned memory at every call of the Python code")
        made = Tensor("cpu", owner.ndim, owner.dtype, None, owner.sym, owner.origins, pinned=True)
        return made if not owner.on_gpu or owner.device == "" else owner
    if name == "data_ptr":
        return python.identity(machine, owner, node)
    return Value(mix(name, owner.sym))


def on_set(machine: Machine, owner: Value, name: str, new: Value, node: ast.AST) -> None:
    """An attribute or item is set: `.data`, `.grad`, parameters, global switches."""
    if machine.torch.setting is not None:
        machine.torch.setting(machine, owner, name, new, node)
    if isinstance(owner, Tensor):
        _set_of_tensor(machine, owner, name, new, node)
    elif isinstance(owner, External) and owner.name == "torch.backends.cudnn" and name == "benchmark":
        if isinstance(new, Host) and new.value is True:
            machine.report("CG412", node, f"{quoted(node)} = True searches for algorithms at the first call of each shape")
    elif (
        isinstance(owner, Instance) and isinstance(new, Tensor) and new.parameter == "parameter" and owner.made < machine.round
    ):
        machine.report("CG303", node, f"{quoted(node)} is replaced by a new parameter: a replay goes on reading the old one")
    elif (
        isinstance(owner, Mapping)
        and name == "lr"
        and "params" in owner.slots
        and machine.inside
        and not isinstance(new, Tensor)
    ):
        machine.report(
            "CG110", node, f"{quoted(node)} is set at capture only: the captured step keeps the number of that moment"
        )


def _set_of_tensor(machine: Machine, owner: Tensor, name: str, new: Value, node: ast.AST) -> None:
    if name == "data":
        if machine.inside and owner.on_gpu and min(owner.storages) < machine.torch.mark:
            machine.torch.rebound.setdefault(id(owner), (owner, owner.storages, []))[2].append(node)
            machine.torch.rebound_at[id(node)] = machine.site(node)
            owner.storages = new.storages if isinstance(new, Tensor) else frozenset((fresh(),))
    elif name == "grad":
        if isinstance(new, Host) and machine.inside:
            machine.torch.zeroed = True
            machine.torch.dropped = machine.torch.dropped or not machine.torch.went_back
        elif isinstance(new, Host):
            machine.torch.gradients_left = machine.torch.gradients_held = False
        machine.torch.grads[min(owner.storages)] = new if isinstance(new, Tensor) else Tensor(owner.device, owner.ndim, "float")
    elif name == "requires_grad" and machine.inside:
        machine.report("CG114", node, f"{quoted(node)} is switched at capture only; replays keep what was captured")
