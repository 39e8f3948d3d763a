"""Find what an object of a library does, by the dotted name of its class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.attributes import Super
from cudagraph_skill.check.interpreter.items import item_at, items_of, key_of, sample_item
from cudagraph_skill.check.interpreter.iteration import run_generator
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    Bound,
    Class,
    External,
    Function,
    Host,
    Instance,
    Mapping,
    Method,
    Native,
    Object,
    Partial,
    Sequence,
    Tensor,
    Value,
    const,
    device,
    joined,
    number,
    origins_of,
    quoted,
)
from cudagraph_skill.check.library import stdlib
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import (
    autocast,
    autograd,
    devices,
    distributed,
    distributions,
    graphs,
    layers,
    modules,
    optimizers,
    random,
    streams,
    tensors,
    transforms,
)

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


def function(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value | None:
    """Return what a function of torch returns that is no operation on tensors; None for the rest."""
    run = _FUNCTIONS.get(name)
    if run is not None:
        return run(machine, args, kwargs, node)
    is_class = name.rsplit(".", 1)[-1][:1].isupper()
    for beginning, run_named, of_classes in _FUNCTIONS_OF_MODULES:
        if name.startswith(beginning) and (is_class or not of_classes):
            return run_named(machine, name, args, kwargs, node)
    return None


def _synchronize(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    machine.report("CG208", node, f"{quoted(node)} waits for the GPU")
    machine.torch.inflight.clear()
    return const(None)


def _cudnn_flags(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    searches = bind("enabled, benchmark", args, kwargs).get("benchmark")
    if isinstance(searches, Host) and searches.value is True:
        machine.report("CG412", node, f"{quoted(node)} searches for algorithms at the first call of each shape")
    return Object("torch.backends.cudnn.flags", args, kwargs, machine.round)


def _to_parameters(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    machine.report("CG303", node, f"{quoted(node)} gives each parameter new memory: a replay goes on reading the old")
    machine.gpu_work(node, *bind("vec, parameters", args, kwargs).given(["vec"]))
    return const(None)


def _to_vector(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del kwargs
    machine.gpu_work(node, *args)
    return Tensor("cuda", 1, "float")


def _normed_by_hook(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the module of `weight_norm` or `spectral_norm`, which work by a hook on it."""
    del kwargs, node
    if not args:
        return Value()
    machine.torch.hooks.setdefault(id(args[0]), []).append(("before", Native(lambda _, __: const(None))))
    return args[0]


def _first(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del machine, kwargs, node
    return args[0] if args else Value()


def _unknown(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del machine, name, args, kwargs, node
    return Value()


def _number_of(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del machine, args, kwargs, node
    return number(mix(name))


def _object_of(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del node
    return Object(name, args, kwargs, machine.round)


def _parametrized(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the module of a parametrization; the default map of an orthogonal one fails at each call of the module."""
    del machine, node
    owner = args[0] if args else Value()
    way = kwargs.get("orthogonal_map")
    householder = isinstance(way, Host) and way.value == "householder"
    if name.endswith(".orthogonal") and isinstance(owner, Object) and not householder:
        owner.slots["__orthogonal__"] = Value()
    return owner


def _object(name: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def make(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        made = Object(name, args, kwargs, machine.round)
        made.site, made.call = machine.site(node), node
        return made

    return make


def _sizes(count: int) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    return lambda machine, *_: Sequence("list", [number() for _ in range(count)], machine.round)


def _known(value: object) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def give(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        del machine, args, kwargs, node
        return const(value)

    return give


_FUNCTIONS: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    "torch.cuda.synchronize": _synchronize, "torch.accelerator.synchronize": _synchronize,
    "torch.cuda.default_stream.synchronize": _synchronize, "torch.backends.cudnn.flags": _cudnn_flags,
    "torch.nn.utils.vector_to_parameters": _to_parameters, "torch.nn.utils.convert_parameters.vector_to_parameters": _to_parameters,
    "torch.nn.utils.parameters_to_vector": _to_vector, "torch.nn.utils.convert_parameters.parameters_to_vector": _to_vector,
    "torch.nn.utils.weight_norm": _normed_by_hook, "torch.nn.utils.spectral_norm": _normed_by_hook,
    "torch.jit.script": _first, "torch.jit.export": _first, "torch.jit.ignore": _first, "torch._dynamo.disable": _first,
    "torch.cuda.current_stream": streams.current_stream, "torch.cuda.default_stream": streams.default_stream,
    "torch.cuda.stream": _object("torch.cuda.stream"), "torch.cuda.graph": _object("torch.cuda.graph"),
    "torch.cuda.set_stream": streams.set_stream, "torch.cuda.current_device": _known(0), "torch.cuda.is_available": _known(True),
    "torch.cuda.device_count": _known(1), "torch.cuda.is_current_stream_capturing": graphs.is_capturing,
    "torch.cuda.empty_cache": graphs.flush, "torch.cuda.reset_peak_memory_stats": graphs.flush, "torch.cuda.memory.empty_cache": graphs.flush, "torch.cuda.ipc_collect": graphs.flush,
    "torch.cuda.make_graphed_callables": graphs.graph_callables,
    "transformer_engine.pytorch.make_graphed_callables": graphs.graph_callables,
    "transformer_engine.pytorch.graph.make_graphed_callables": graphs.graph_callables,
    "torch.Generator": random.generator, "torch.cuda.manual_seed": random.seed, "torch.cuda.manual_seed_all": random.seed, "torch.manual_seed": random.seed,
    "torch.random.manual_seed": random.seed, "torch.seed": random.seed, "torch.random.seed": random.seed, "torch.cuda.seed": random.seed,
    "torch.cuda.seed_all": random.seed, "torch.cuda.random.manual_seed": random.seed, "torch.cuda.random.manual_seed_all": random.seed,
    "torch.cuda.set_rng_state_all": random.set_state,
    "torch.set_rng_state": _known(None), "torch.cuda.set_rng_state": random.set_state, "torch.random.set_rng_state": _known(None),
    "torch.random.fork_rng": _object("torch.random.fork_rng"), "torch.cuda.get_rng_state": _object("torch.ByteTensor"),
    "torch.get_rng_state": _object("torch.ByteTensor"), "torch.initial_seed": _known(0), "torch.cuda.initial_seed": _known(0),
    "torch.utils.checkpoint.checkpoint": autograd.checkpoint, "torch.autograd.grad": autograd.gradients, "torch.autograd.backward": autograd.gradients,
    "torch.func.functional_call": transforms.functional_call, "torch.nn.utils.stateless.functional_call": transforms.functional_call,
    "torch.nn.utils.clip_grad_norm_": optimizers.clip_gradients, "torch.nn.utils.clip_grad_value_": optimizers.clip_gradients,
    "torch.nn.utils.get_total_norm": optimizers.total_norm, "torch.optim.swa_utils.update_bn": optimizers.update_bn,
    "torch.nn.Transformer.generate_square_subsequent_mask": lambda m, _a, k, _n: Tensor(devices.where_of(m, k.get("device")), 2, "float"),
    "torch.device": tensors.device_of, "torch.finfo": tensors.finfo, "torch.iinfo": tensors.finfo, "torch.Size": lambda _m, args, _k, _n: args[0] if args else Value(),
    "torch.nn.Parameter": tensors.parameter, "torch.nn.Buffer": tensors.buffer, "torch.nn.parameter.Parameter": tensors.parameter,
    "torch.nn.parameter.Buffer": tensors.buffer, "torch.set_default_device": tensors.set_default_device,
    "torch.cond": transforms.cond, "torch._higher_order_ops.cond": transforms.cond,
    "torch.autograd.set_detect_anomaly": autograd.set_detect_anomaly, "torch.autograd.detect_anomaly": _object("torch.autograd.detect_anomaly"),
    "torch.sparse_csr_tensor": tensors.sparse("csr"), "torch.nn.utils.rnn.pack_padded_sequence": tensors.pack,
    "torch.set_grad_enabled": _object("torch.set_grad_enabled"),
    "torch.autograd.graph.save_on_cpu": _object("torch.autograd.graph.save_on_cpu"), "torch.no_grad": _object("torch.no_grad"),
    "torch.autocast": _object("torch.autocast"), "torch.amp.autocast": _object("torch.autocast"),
    "torch.cuda.amp.autocast": _object("torch.autocast"), "torch.amp.autocast_mode.autocast": _object("torch.autocast"),
    "torch.clear_autocast_cache": autocast.clear_cache,
    "torch.utils.checkpoint.checkpoint_sequential": autograd.checkpoint_sequential,
    "torch.inference_mode": _object("torch.inference_mode"), "torch.enable_grad": _object("torch.enable_grad"),
    "torch.is_grad_enabled": lambda _m, _a, _k, _n: Host("bool", sym=mix("grad")),
    "torch.get_default_dtype": lambda _m, _a, _k, _n: Host("dtype", sym=mix("default dtype")),
    "torch.compile": transforms.wrapper("compile"), "torch.vmap": transforms.wrapper("vmap"), "torch.func.vmap": transforms.wrapper("vmap"),
    "torch.func.grad": transforms.wrapper("grad"), "torch.func.jacrev": transforms.wrapper("jacrev"), "torch.func.jacfwd": transforms.wrapper("jacfwd"),
    "torch.func.hessian": transforms.wrapper("hessian"), "torch.func.grad_and_value": transforms.wrapper("grad_and_value"),
    "torch.jit.trace": _first,
    "torch._dynamo.is_compiling": _known(False), "torch.compiler.is_compiling": _known(False), "torch.jit.is_scripting": _known(False),
    "torch.jit.is_tracing": _known(False), "torchvision._is_tracing": _known(False), "torch.onnx.is_in_onnx_export": _known(False), "torch.cuda.graph_pool_handle": _known("pool"),
    **dict.fromkeys((f"torchvision.transforms.{part}functional.get_dimensions" for part in ("", "v2.")), _sizes(3)),
    **dict.fromkeys((f"torchvision.transforms.{part}functional.get_image_size" for part in ("", "v2.")), _sizes(2)),
    "torch.cuda.cudart": _object("torch.cuda.cudart"), "torch.compiler.cudagraph_mark_step_begin": _known(None), "torch.cuda.set_device": _known(None),
}  # fmt: skip


# By the beginning of the dotted name, the first that fits; the last column says whether it is for classes only.
_FUNCTIONS_OF_MODULES: tuple[tuple[str, Callable[[Machine, str, Args, Kwargs, ast.AST], Value | None], bool], ...] = (
    ("torch.distributed.fsdp", lambda *_: None, False),  # modules and functions like others
    ("torch.distributed.", distributed.collective, False),
    ("torch.distributions.", distributions.distribution, True),
    ("torch.optim.", optimizers.optimizer, True),
    ("torch.backends.", _unknown, False),
    ("torch._dynamo.", _unknown, False),
    ("torch._inductor.", _unknown, False),
    ("torch.jit.", _unknown, False),
    ("torch.fx.", _unknown, False),
    ("torch.onnx.", _unknown, False),
    ("torch.nn.utils.parametrizations.", _parametrized, False),
    ("torch.cuda.memory", _number_of, False),
    ("torch.cuda.mem_", _number_of, False),
    ("torch.cuda.reset_", _number_of, False),
    ("torch.cuda.max_", _number_of, False),
    ("torch.cuda.get_device", _number_of, False),
    ("torch.cuda.nvtx.", _object_of, False),
    ("torch.profiler.", _object_of, False),
    ("torch.autograd.profiler.", _object_of, False),
    ("torch.library.", _object_of, False),
    ("torch.utils.data.", _object_of, False),
)


_OF_LAYERS = {"training", "sparse", "in_features", "out_features", "eps", "momentum", "p", "num_embeddings", "embedding_dim",
              "padding_idx", "hidden_size", "num_layers"}  # fmt: skip
_OF_DISTRIBUTIONS = {"logits", "probs", "mean", "loc", "scale", "stddev", "variance"}


def attribute(machine: Machine, owner: Object, name: str, node: ast.AST) -> Value:
    """Return what an attribute of a library's object is."""
    del node
    if name == "cuda_stream" and owner.name in streams.STREAMS:
        machine.torch.followers.add(id(owner))  # code outside of torch may make it capture
        return number()
    if name in {"__class__", "__dict__"}:
        return Value(mix(name, owner.sym))
    if owner.name.startswith("torch.nn."):
        return _of_layer(machine, owner, name)
    if owner.name.startswith("torch.optim.swa_utils.") and name == "module":
        return owner.args[0] if owner.args else Value()
    if owner.name in {"torch.finfo", "torch.iinfo"}:
        return number(mix(name, *(arg.sym for arg in owner.args)))
    if owner.name.startswith("torch.distributions.") and name in _OF_DISTRIBUTIONS:
        return Tensor("cuda", None, "float")
    return Method(owner, name)


def _of_layer(machine: Machine, owner: Object, name: str) -> Value:
    """Return what an attribute of a layer of torch.nn is."""
    if name in modules._PARAMETERS:
        return modules.parameter_of(machine, owner, name)
    if name in _OF_LAYERS:
        return owner.kwargs.get(name) or Host("bool" if name == "training" else "number", sym=mix(name, owner.sym))
    return owner.args[0] if name == "module" and owner.args else Method(owner, name)


def of_class(owner: Class, name: str) -> Value:
    """Return what an attribute of a user's class is that it inherits from a library."""
    if name == "apply" and any(library.startswith("torch.autograd") for library in owner.libraries()):
        return Partial(owner, [], {}, "autograd")
    if name == "__name__":
        return const(owner.name)
    if name in {"__init__", "forward"}:
        return Method(owner, name)
    return Value(mix("of class", owner.name, name))


def module_attribute(machine: Machine, owner: Instance, name: str, node: ast.AST) -> Value | None:
    """Return what an attribute of a user's object is that it inherits from a class of a library; None where that is not known."""
    del machine, node
    libraries = owner.cls.libraries()
    if name in {"logger", "device", "dtype"} and any(library.startswith("torch.nn.") for library in libraries):
        return device("cuda") if name == "device" else Host(name)
    if owner.guessed and name == "training":
        return Host("bool", sym=mix("training", owner.sym))
    of_library = any(
        library.startswith(("torch.", "lightning", "pytorch_lightning", "transformer_engine")) for library in libraries
    )
    if (of_library or modules.is_module(owner)) and name in modules.MODULE_METHODS | optimizers.OPTIMIZER_METHODS:
        return Method(owner, name)
    return Method(owner.slots["[]"], name) if "[]" in owner.slots else None


def module_item(machine: Machine, owner: Instance, index: Value, node: ast.AST) -> Value:
    """Return what `object[index]` is for a user's object that inherits from a container."""
    if "[]" in owner.slots:
        return item_at(machine, owner.slots["[]"], index, node)
    return Value(mix("item", owner.sym, index.sym), index.origins)


def object_item(machine: Machine, owner: Object, index: Value, node: ast.AST) -> Value:
    """Return what `object[index]` is for a library's object."""
    inner = modules.container_items(machine, owner)
    if inner is not None:
        if isinstance(inner, Mapping) and key_of(index) is None and isinstance(index, Tensor) and index.on_gpu:
            machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as a Python index")
        return item_at(machine, inner, index, node)
    if owner.name == "torch.cuda.default_generators":
        return random.default_generator()
    if owner.name.startswith("os.environ"):
        machine.report("CG113", node, f"{quoted(node)} is read at capture only; replays keep what it said then")
        return Host("str")
    return Value(mix("item", owner.sym, index.sym), index.origins)


def object_items(machine: Machine, owner: Value, node: ast.AST, count: int | None) -> Args | None:
    """Return the items of a library's or a user's object, where they are known one by one."""
    if isinstance(owner, Object):
        inner = modules.container_items(machine, owner)
        if inner is not None:
            return items_of(machine, inner, node, count)
        if owner.name == "generator":
            items: Args = []

            def keep(item: Value) -> int:
                items.append(item)
                return 0

            run_generator(machine, owner, keep)
            return items
        if owner.name in {"builtins.iter", "itertools.cycle"} and machine.inside and owner.made < machine.round:
            machine.report(
                "CG105", node, f"{quoted(node)} advances an iterator at capture only; every replay repeats what it gave then"
            )
        if owner.name == "builtins.iter" and owner.args:
            return items_of(machine, owner.args[0], node, count)
        return None
    if isinstance(owner, Instance):
        if "[]" in owner.slots:
            return items_of(machine, owner.slots["[]"], node, count)
        if any(name.endswith("NamedTuple") for name in owner.cls.libraries()):
            return list(owner.slots.values())
        method = owner.cls.find("__iter__")
        if method:
            made = machine.call(Bound(owner, method[1]), [], {}, node)
            return items_of(machine, made, node, count) if made is not owner else None
    return None


def any_item(machine: Machine, owner: Value, node: ast.AST) -> Value:
    """Return any item of a library's or a user's object."""
    known = object_items(machine, owner, node, None) if not (isinstance(owner, Object) and owner.name == "generator") else None
    if known:
        return joined(known, machine.round) or Value()
    if (
        isinstance(owner, Object)
        and (inner := modules.container_items(machine, owner)) is not None
        and isinstance(inner, Sequence)
    ):
        return sample_item(machine, inner, node)
    return Value(mix("each", owner.sym))


def truth(owner: Object) -> bool | None:
    """Return the truth of a library's object."""
    return True if owner.name.startswith(("torch.nn.", "torch.optim.", "torch.cuda.")) else None


_DECORATORS = {"torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.autocast", "torch.set_grad_enabled",
               "functools.lru_cache"}  # fmt: skip


def call_object(machine: Machine, owner: Object, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call an object of a library: a module, a decorator, a loss."""
    name = owner.name
    if name.startswith(("torch.nn.", "transformer_engine.", "torchvision.")):
        return layers.call_layer(machine, owner, args, kwargs, node)
    if name in _DECORATORS:
        return _decorated(owner, args[0]) if args else Value()
    if name == "torch.optim.swa_utils.AveragedModel" and owner.args:
        return machine.call(owner.args[0], args, kwargs, node)
    if any(isinstance(part, Tensor) and part.on_gpu for part in args):
        machine.gpu_work(node, *args, *kwargs.values())
        return Tensor("") if name.startswith("torch") else Value()
    if name.startswith("builtins."):
        return Value()
    parts = [*args, *kwargs.values()]
    return Value(mix("call", owner.sym, *(part.sym for part in parts)), origins_of(parts))


def _decorated(owner: Object, function: Value) -> Value:
    """Return what `@torch.no_grad()`, `@lru_cache()` and similar objects make of a function."""
    if owner.name == "torch.autocast":
        return Partial(function, [owner], {}, "autocast")
    if isinstance(function, Function) and owner.name == "functools.lru_cache":
        function.memo = {}
    if isinstance(function, Function) and owner.name in {"torch.no_grad", "torch.inference_mode"}:
        function.marks |= {"no_grad"}
    return function


def method(machine: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a library's object returns, or one that a user's object inherits."""
    if isinstance(owner, Super):
        return _super_method(machine, owner, name, args, kwargs, node)
    if isinstance(owner, Instance) and "param_groups" in owner.slots:
        if name == "zero_grad":
            return autograd.zero_grad(machine, owner, args, kwargs, node)
        if name in optimizers.OPTIMIZER_METHODS:
            return const(None)
    if isinstance(owner, Instance) or modules.is_module(owner):
        return modules.module_method(machine, owner, name, args, kwargs, node)
    if isinstance(owner, Object):
        return _object_method(machine, owner, name, args, kwargs, node)
    return Value()


def _object_method(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if machine.torch.calling is not None:
        machine.torch.calling(machine, owner, name, args, kwargs, node)
    for prefix, run in _METHODS:
        if owner.name.startswith(prefix):
            return run(machine, owner, name, args, kwargs, node)
    answer = _python_method(machine, owner, name, args, kwargs, node)
    if answer is not None:
        return answer
    parts = [*args, *kwargs.values()]
    if machine.inside:
        for part in parts:
            machine.use(part)
    return Value(mix(name, owner.sym, *(part.sym for part in parts)), origins_of(parts))


def _python_method(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value | None:
    """Return what a method of an object of Python's library returns; None for other objects."""
    if owner.name.startswith("pathlib."):
        return _path_method(machine, owner, name, args, kwargs, node)
    if owner.name in {"builtins.open", "io.StringIO"} and name.startswith("write"):
        machine.report("CG108", node, f"{quoted(node)} writes at capture only, not at a replay")
        return const(None)
    if owner.name == "logging.Logger":
        return _of_logger(machine, owner, name, args, node)
    if owner.name in {"random.Random", "numpy.random.Generator"}:
        return _of_generator(machine, owner, name, args, node)
    if owner.name == "contextlib.ExitStack" and name == "enter_context" and args and isinstance(args[0], Object):
        return _entered(machine, args[0], node)
    if owner.name.endswith("contextvars.ContextVar"):
        return stdlib.of_context_variable(machine, owner, name, args, node)
    if owner.name == "types.SimpleNamespace" and name in owner.slots:
        return machine.call(owner.slots[name], args, kwargs, node)
    return None


def _of_generator(machine: Machine, owner: Object, name: str, args: Args, node: ast.AST) -> Value:
    """Return what a generator of random numbers on the host draws."""
    if owner.made >= machine.round and owner.args:  # seeded in the same call: the same numbers each time
        return Host("number", sym=mix(name, getattr(node, "lineno", 0)))
    return stdlib.drawn(machine, "CG601" if owner.name == "random.Random" else "CG602", name, args, node)


def _of_logger(machine: Machine, owner: Object, name: str, args: Args, node: ast.AST) -> Value:
    if name == "setLevel" and args and isinstance(args[0], External):
        owner.slots["level"] = const(args[0].name.rsplit(".", 1)[-1])
    level = owner.slots.get("level")
    machine.torch.log_level = str(level.value) if isinstance(level, Host) else ""
    return stdlib.logged(machine, name, args, node)


def _entered(machine: Machine, context: Object, node: ast.AST) -> Object:
    """Enter an autocast block by an ExitStack, which leaves it."""
    if context.name == "torch.autocast" and autocast.caches(context):
        machine.torch.autocasts.append((context, machine.site(node)))
    return context


def _path_method(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a path returns; files are read and written at capture only."""
    if name in {"read_text", "read_bytes", "exists", "is_file", "open", "stat"}:
        machine.report("CG113", node, f"{quoted(node)} is read at capture only; replays keep what it said then")
        if machine.torch.files_change and name.startswith("read_"):
            message = (
                f"{quoted(node)} reads a file that other code writes between calls; the graph keeps what it said at capture"
            )
            return Host("str", origins=machine.origin("CG102", node, message))
    if name.startswith("write_"):
        machine.torch.files_change |= not machine.inside and bool(machine.round)
        machine.report("CG108", node, f"{quoted(node)} writes at capture only, not at a replay")
        return const(None)
    return Object("builtins.open" if name == "open" else "pathlib.Path", [owner, *args], kwargs, machine.round)


def _super_init(machine: Machine, receiver: Instance, args: Args, kwargs: Kwargs) -> Value:
    receiver.slots["__options__"] = Object("options", args, kwargs, machine.round)
    modules.inherit_container(machine, receiver, args, kwargs)
    if any(library.startswith("torch.optim") for library in receiver.cls.libraries()) and args:
        defaults = args[1] if len(args) > 1 else kwargs.get("defaults", Mapping(machine.round))
        options = dict(defaults.slots) if isinstance(defaults, Mapping) else {}
        optimizers.give_groups(machine, receiver, args[0], options)
    return const(None)


def _super_method(machine: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    receiver = getattr(owner, "receiver", None)
    if not isinstance(receiver, Instance):
        return Value()
    if name == "__init__":
        return _super_init(machine, receiver, args, kwargs)
    if name == "__setattr__" and len(args) == 2 and isinstance(args[0], Host) and isinstance(args[0].value, str):
        machine.write(receiver, args[0].value, args[1], node)
        return const(None)
    if name in {"forward", "__call__"}:
        base = next(
            (
                library
                for library in receiver.cls.libraries()
                if library.startswith("torch.nn.") and library != "torch.nn.Module"
            ),
            "",
        )
        if base:
            return layers.call_inherited(machine, receiver, base, args, kwargs, node)
        return layers.call_module(machine, receiver, args, kwargs, node) if name == "__call__" else Value()
    if "[]" in receiver.slots:
        return machine.call(Method(receiver.slots["[]"], name), args, kwargs, node)
    return modules.module_method(machine, receiver, name, args, kwargs, node)


def _of_hook_handle(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs, node
    if name == "remove" and len(owner.args) == 2:
        hooks = machine.torch.hooks.get(id(owner.args[0]), [])
        hooks[:] = [pair for pair in hooks if pair[1] is not owner.args[1]]
    return const(None)


_METHODS: tuple[tuple[str, Callable[[Machine, Object, str, Args, Kwargs, ast.AST], Value]], ...] = (
    ("torch.optim.", optimizers.of_optimizer),
    ("torch.cuda.amp.GradScaler", optimizers.of_scaler), ("torch.amp.GradScaler", optimizers.of_scaler), ("torch.GradScaler", optimizers.of_scaler),
    ("torch.cuda.Stream", streams.of_stream), ("torch.cuda.current_stream", streams.of_stream), ("torch.cuda.default_stream", streams.of_stream),
    ("torch.Stream", streams.of_stream), ("torch.cuda.Event", streams.of_event), ("torch.Event", streams.of_event),
    ("torch.Generator", random.of_generator), ("torch.cuda.CUDAGraph", graphs.of_graph), ("torch.distributions.", distributions.of_distribution),
    ("threading.Thread", stdlib.of_thread), ("concurrent.futures.Executor", stdlib.of_thread), ("torch.distributed.Work", distributed.of_work),
    ("torch.utils.hooks.RemovableHandle", _of_hook_handle), ("torch.autograd.Context", autograd.of_context),
)  # fmt: skip
