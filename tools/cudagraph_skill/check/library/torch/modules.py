"""Follow torch.nn modules: their children, parameters, modes, moves and hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.unfollowed import inherits_unknown
from cudagraph_skill.check.interpreter.values import (
    Holder,
    Host,
    Instance,
    Mapping,
    Method,
    Object,
    Sequence,
    Tensor,
    Value,
    const,
    origins_of,
    quoted,
)
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import autograd, devices

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

_PARAMETERS = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked", "in_proj_weight", "weight_ih_l0", "weight_hh_l0",
               "bias_ih_l0", "bias_hh_l0"}  # fmt: skip

MODULE_METHODS = {"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "train", "eval", "requires_grad_", "parameters", "buffers",
                   "named_parameters", "named_buffers", "state_dict", "load_state_dict", "register_buffer", "register_parameter",
                   "add_module", "register_module", "register_forward_hook", "register_forward_pre_hook", "modules", "named_modules",
                   "children", "named_children", "apply", "zero_grad", "share_memory", "get_parameter", "get_submodule", "type",
                   "register_full_backward_hook", "compile", "log", "save_hyperparameters", "set_extra_state", "extra_repr",
                   "__call__", "forward"}  # fmt: skip

_CONTAINERS = {"torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.Sequential"}


def inherit_container(machine: Machine, made: Instance, args: Args, kwargs: Kwargs) -> None:
    """Give an object of a class that inherits from a container of modules what the container was made of."""
    base = next((name for name in made.cls.libraries() if name in _CONTAINERS), "")
    if not base:
        return
    inner = Object(base, args, kwargs, machine.round)
    made.slots["__options__"] = Object("options", args, kwargs, machine.round)
    children = container_items(machine, inner)
    if children is not None:
        made.slots["[]"] = children


def container_items(machine: Machine, owner: Object) -> Sequence | Mapping | None:
    """Return the modules in a Sequential, ModuleList or ModuleDict; the parameters in a ParameterList."""
    del machine
    if "children" in owner.slots:
        children = owner.slots["children"]
        return children if isinstance(children, (Sequence, Mapping)) else None
    last = owner.name.rsplit(".", 1)[-1]
    if last not in {"Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}:
        return None
    given = owner.args[0] if owner.args else None
    made: Sequence | Mapping
    if last in {"ModuleDict", "ParameterDict"} or (last == "Sequential" and isinstance(given, Mapping)):
        made = _by_name(owner, given)
    elif last == "Sequential":
        made = Sequence("list", list(owner.args), owner.made)
    elif isinstance(given, Sequence):
        made = Sequence("list", given.items, owner.made, given.rest)
    else:
        made = Sequence("list", [] if given is None else None, owner.made, Value())
    if last.startswith("Parameter"):
        for item in made.each():
            if isinstance(item, Tensor):
                item.parameter = "parameter"
    owner.slots["children"] = made
    return made


def _by_name(owner: Object, given: Value | None) -> Mapping:
    """Return the modules of a ModuleDict, or of a Sequential that is made of a dict."""
    if isinstance(given, Mapping):
        made = Mapping(owner.made, given.rest)
        made.slots.update(given.slots)
        return made
    return Mapping(owner.made, None if given is None else Value())


def children_of(machine: Machine, owner: Value) -> Args:
    """Return the modules right below a module."""
    if isinstance(owner, Object):
        inner = container_items(machine, owner)
        if inner is not None:
            return inner.each()
        return [child for child in owner.args if isinstance(child, (Instance, Object)) and is_module(child)]
    if isinstance(owner, Instance):
        own = owner.slots.get("[]")
        held = own.each() if isinstance(own, (Sequence, Mapping)) else []
        return [child for child in (*owner.slots.values(), *held) if is_module(child)]
    return []


def is_module(value: Value) -> bool:
    """Return whether a value is a module."""
    if isinstance(value, Object):
        return value.name.startswith(("torch.nn.", "transformer_engine.")) and not value.name.startswith("torch.nn.utils")
    if not isinstance(value, Instance):
        return False
    of_torch = any(name.startswith("torch.nn.") for name in value.cls.libraries())
    return of_torch or (inherits_unknown(value.cls) and value.cls.find("forward") is not None)


def all_modules(machine: Machine, owner: Value) -> Args:
    """Return a module and all below it."""
    modules: Args = []
    waiting = [owner]
    while waiting and len(modules) < 400:
        module = waiting.pop(0)
        if any(module is known for known in modules):
            continue
        modules.append(module)
        waiting += children_of(machine, module)
    return modules


def parameter_of(machine: Machine, owner: Object, name: str) -> Tensor:
    """Return a parameter that a layer makes for itself."""
    made = Tensor("cuda", 1 if "bias" in name or "running" in name else 2, "float")
    made.parameter = "parameter"
    sparse = owner.kwargs.get("sparse")
    if isinstance(sparse, Host) and sparse.value is True and owner.name.startswith("torch.nn.Embedding"):
        made.layout = "sparse rows"
        machine.torch.sparse_layers.append(owner)
    owner.slots[name] = made
    return made


def own_tensors(machine: Machine, owner: Value) -> list[tuple[str, Tensor]]:
    """Return parameters and buffers that a module itself holds."""
    if isinstance(owner, Instance):
        return [(name, tensor) for name, tensor in owner.slots.items() if isinstance(tensor, Tensor) and tensor.parameter]
    if isinstance(owner, Object):
        last = owner.name.rsplit(".", 1)[-1]
        inner = container_items(machine, owner)
        if inner is not None:
            return [("parameter", tensor) for tensor in inner.each() if isinstance(tensor, Tensor)]
        if last in _WITHOUT_PARAMETERS or last.endswith("Loss"):
            return []
        for name in ("weight", "bias"):
            if name not in owner.slots:
                parameter_of(machine, owner, name)
        return [(name, tensor) for name, tensor in owner.slots.items() if isinstance(tensor, Tensor)]
    return []


_WITHOUT_PARAMETERS = {"ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "Softmax", "Dropout", "Identity", "Flatten", "MaxPool2d", "AvgPool2d",
                       "AdaptiveAvgPool2d", "LeakyReLU", "ELU", "Upsample", "Dropout2d", "LogSoftmax", "Softplus", "AdaptiveAvgPool1d"}  # fmt: skip


def tensors_of(machine: Machine, owner: Value, kind: str = "") -> list[Tensor]:
    """Return parameters and buffers of a module and all below it."""
    return [
        tensor
        for module in all_modules(machine, owner)
        for _, tensor in own_tensors(machine, module)
        if not kind or (tensor.parameter or "parameter") == kind
    ]


def module_method(machine: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a module returns."""
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
        inner = container_items(machine, owner)
        return machine.call(Method(inner, name), args, kwargs, node) if inner is not None else Value()
    if isinstance(owner, Instance) and "[]" in owner.slots:
        return machine.call(Method(owner.slots["[]"], name), args, kwargs, node)
    return Value(mix(name, owner.sym, *(arg.sym for arg in args)), origins_of(args))


def _moved(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    where = ""
    for part in (*args, *kwargs.values()):
        if isinstance(part, Tensor):
            where = part.device
        elif isinstance(part, Host) and part.kind not in {"dtype", "bool"}:
            where = devices.where_of(machine, part)
    where = where or ("cuda" if args or kwargs else "")
    new = isinstance(owner, (Object, Instance)) and owner.made >= machine.round and where.startswith("cuda")
    if new and any(tensor.device != where or isinstance(owner, Object) for tensor in tensors_of(machine, owner)):
        machine.report("CG221", node, f"{quoted(node)} copies the weights of a new module to the GPU")
    _move_all(machine, owner, where)
    return owner


def _move_all(machine: Machine, owner: Value, where: str) -> None:
    for tensor in tensors_of(machine, owner):
        if where:
            tensor.device = where


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
    off = bind("requires_grad", args, kwargs).get("requires_grad")
    for tensor in tensors_of(machine, owner):
        tensor.frozen = isinstance(off, Host) and off.value is False
    machine.report("CG114", node, f"{quoted(node)} switches gradients at capture only; replays keep what was captured")
    return owner


def _mode(training: bool) -> Callable[[Machine, Value, Args, Kwargs, ast.AST], Value]:
    def set_mode(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        given = bind("mode", args, kwargs).get("mode") if training else None
        mode = given or const(training)
        for module in all_modules(machine, owner):
            if isinstance(module, Holder):
                machine.write(module, "training", mode, node)
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
            item: Value = Sequence("tuple", [Host("str"), some], machine.round) if named else some
            return Sequence("iterator", None, machine.round, item)
        if not named:
            return Sequence("iterator", tensors, machine.round)
        pairs: Args = [Sequence("tuple", [const(f"{kind}{place}"), item], machine.round) for place, item in enumerate(tensors)]
        return Sequence("iterator", pairs, machine.round)

    return give


def _modules(*, deep: bool, named: bool) -> Callable[[Machine, Value, Args, Kwargs, ast.AST], Value]:
    def give(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        del args, kwargs, node
        modules = all_modules(machine, owner) if deep else children_of(machine, owner)
        if named:
            modules = [
                Sequence("tuple", [Host("str", sym=mix("module", module.sym)), module], machine.round) for module in modules
            ]
        return Sequence("iterator", modules, machine.round)

    return give


def _state_dict(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs, node
    made = Mapping(machine.round)
    for place, tensor in enumerate(tensors_of(machine, owner)):
        made.slots[f"tensor{place}"] = tensor
    return made


def _register_buffer(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    bound = bind("name, tensor|param, persistent", args, kwargs)
    name, value = bound.get("name"), bound.get("tensor") or const(None)
    if isinstance(value, Tensor):
        value.parameter = value.parameter or "buffer"
    if isinstance(owner, Holder) and isinstance(name, Host) and isinstance(name.value, str):
        machine.write(owner, name.value, value, node)
    elif isinstance(owner, Instance) and isinstance(value, Tensor):
        machine.write(owner, "buffer", value, node)
    return const(None)


def _add_module(machine: Machine, owner: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    bound = bind("name, module", args, kwargs)
    name, module = bound.get("name"), bound.get("module")
    if module is not None and isinstance(owner, Holder) and isinstance(name, Host) and isinstance(name.value, str):
        machine.write(owner, name.value, module, node)
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
    for module in all_modules(machine, owner)[:12]:
        machine.call(args[0], [module], {}, node) if args else None
    return owner


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
    "register_full_backward_hook": _hook("backward"), "apply": _apply_to, "zero_grad": autograd.zero_grad,
}  # fmt: skip
