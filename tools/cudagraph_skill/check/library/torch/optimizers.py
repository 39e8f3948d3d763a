"""Step optimizers, learning-rate schedulers and gradient scalers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check import edits
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    External,
    Holder,
    Host,
    Mapping,
    Method,
    Object,
    Sequence,
    Tensor,
    Value,
    const,
    is_none,
    number,
    quoted,
    tensors_in,
)
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import autograd, modules
from cudagraph_skill.check.library.torch.elementwise import elementwise

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

_NEEDS_CAPTURABLE = {"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adadelta", "Rprop", "ASGD"}
_FORMS = ("capturable", "fused", "foreach")  # options of a constructor that decide what its step does
_STATE_FROM_START = {"Adagrad"}  # its constructor makes it
_NO_CAPTURED_FORM = {"LBFGS", "Adafactor", "SparseAdam"}


def clip_gradients(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the norm by which gradients are clipped."""
    bound = bind("parameters, max_norm|clip_value, norm_type, error_if_nonfinite, foreach", args, kwargs)
    strict, largest = bound.get("error_if_nonfinite"), bound.get("max_norm")
    if isinstance(strict, Host) and strict.value is True:
        machine.report(
            "CG230",
            node,
            f"{quoted(node)} tests the norm on the host: error_if_nonfinite=True",
            edits.keyword(node, "error_if_nonfinite", "False"),
        )
    if isinstance(largest, Tensor) and largest.on_gpu:
        machine.report("CG217", node, f"{quoted(node)} needs the value of a GPU tensor as a Python number")
    machine.gpu_work(node, *bound.given(("max_norm",)))
    return Tensor("cuda", 0, "float")


def total_norm(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the norm of all gradients."""
    bound = bind("tensors, norm_type, error_if_nonfinite, foreach", args, kwargs)
    return clip_gradients(machine, [], {"error_if_nonfinite": bound.get("error_if_nonfinite") or const(None)}, node)


def update_bn(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Report the update of batch norm statistics, which counts on the host."""
    del args, kwargs
    machine.report("CG232", node, f"{quoted(node)} averages over all batches, whose count the layers read on the host")
    return const(None)


OPTIMIZER_METHODS = {"step", "add_param_group"}


def optimizer(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Make an optimizer, a learning-rate scheduler or an averaged model."""
    made = Object(name, args, kwargs, machine.round)
    made.site, made.call = machine.site(node), node
    last = name.rsplit(".", 1)[-1]
    if "lr_scheduler" in name or last in {"AveragedModel", "SWALR"}:
        if "lr_scheduler" in name:
            _schedule(machine, made)
        return made
    given = args[0] if args else kwargs.get("params", Value())
    options = dict.fromkeys(_FORMS, Value()) if _spreads_unknown(machine, node) else {}
    give_groups(machine, made, given, options | {key: value for key, value in kwargs.items() if key != "params"})
    return made


def _spreads_unknown(machine: Machine, node: ast.AST) -> bool:
    """Return whether a call gets `**options` of which the keys are not all known."""
    given = [keyword.value for keyword in node.keywords if keyword.arg is None] if isinstance(node, ast.Call) else []
    spread = [machine.value(value) for value in given if isinstance(value, (ast.Name, ast.Attribute, ast.Dict))]
    return len(spread) < len(given) or any(not isinstance(value, Mapping) or value.rest is not None for value in spread)


def give_groups(machine: Machine, owner: Holder, given: Value, options: Kwargs) -> None:
    """Give an optimizer its parameter groups."""
    items = given.items if isinstance(given, Sequence) else None
    groups: Args = []
    if items and all(isinstance(item, Mapping) for item in items):
        for item in items:
            group = Mapping(machine.round)
            group.slots = {**options, **(item.slots if isinstance(item, Mapping) else {})}
            groups.append(group)
    else:
        group = Mapping(machine.round)
        group.slots = dict(options)
        group.slots["params"] = Sequence(
            "list", items, machine.round, given.rest if isinstance(given, Sequence) else Tensor("cuda", None, "float")
        )
        groups.append(group)
    for item in groups:
        if isinstance(item, Mapping):
            item.slots.setdefault("lr", number(mix("lr")))
    owner.slots["param_groups"] = Sequence("list", groups, machine.round)
    state = Mapping(machine.round)
    state.factory = External("builtins.dict")
    owner.slots["state"] = state
    owner.slots["defaults"] = Mapping(machine.round)


def groups_of(owner: Value) -> list[Mapping]:
    """Return the parameter groups of an optimizer."""
    groups = owner.slots.get("param_groups") if isinstance(owner, Holder) else None
    return [group for group in groups.each() if isinstance(group, Mapping)] if isinstance(groups, Sequence) else []


def parameters_of(owner: Value) -> list[Tensor]:
    """Return the parameters that an optimizer steps."""
    return [tensor for group in groups_of(owner) for tensor in tensors_in(group.slots.get("params", Value()))]


def of_optimizer(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of an optimizer or scheduler returns."""
    last = owner.name.rsplit(".", 1)[-1]
    if "lr_scheduler" in owner.name or last == "SWALR":
        return _of_scheduler(machine, owner, name, args, node)
    if last == "AveragedModel":
        if name == "update_parameters":
            machine.report("CG239", node, f"{quoted(node)} counts on the host and copies between CPU and GPU")
            return const(None)
        return modules.module_method(machine, owner.args[0], name, args, kwargs, node) if owner.args else Value()
    if name == "step":
        return _step(machine, owner, last, args, kwargs, node)
    if name == "zero_grad":
        return autograd.zero_grad(machine, owner, args, kwargs, node)
    if name == "state_dict":
        return Mapping(machine.round, Value())
    return const(None)


def _flag(groups: list[Mapping], name: str) -> list[bool]:
    """Tell for each group whether an option is on; an unknown one counts as on."""
    flags = []
    for group in groups:
        value = group.slots.get(name)
        flags.append(value is not None and not (isinstance(value, Host) and value.known and not value.value))
    return flags


def _step(machine: Machine, owner: Object, last: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    groups = groups_of(owner)
    closure = bind("closure", args, kwargs).get("closure")
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
        machine.torch.stepped |= {memory for parameter in parameters_of(owner) for memory in parameter.storages}
    if not machine.inside:
        owner.slots["stepped"] = const(True)
    elif machine.torch.script and "stepped" not in owner.slots and _stateful(last, groups):
        machine.report(
            "CG405", node, f"{quoted(node)} is the first step: its state is made inside the graph and made anew at every replay"
        )
    return result


def _stateful(last: str, groups: list[Mapping]) -> bool:
    return last not in _STATE_FROM_START and (last != "SGD" or any(_flag(groups, "momentum")))


def _sink_option(machine: Machine, group: Mapping, name: str, node: ast.AST) -> None:
    """Report a number of a group that changes from step to step: the captured step keeps it."""
    option = group.slots[name]
    read = machine.read(group, name, option, node)
    if isinstance(read, Tensor):
        return
    if read.origins and id(group) not in machine.torch.scheduled:
        slot = (id(group), name)
        message = f"{quoted(node)} was captured with the {name} of that moment, a Python number that changes between steps"
        machine.emit(machine.origin("CG110", node, message, slot))


def _step_hazards(machine: Machine, owner: Object, last: str, groups: list[Mapping], node: ast.AST) -> None:
    here = quoted(node)

    def both(hazard: str, at_step: str, at_making: str, option: str = "") -> None:
        machine.report_part(hazard, node, owner, f"{here} {at_step}")
        machine.report_at(hazard, owner, at_making, edits.keyword(owner.call, option, "True") if option else None)

    if last in _NEEDS_CAPTURABLE and not all(_flag(groups, "capturable")):
        both(
            "CG235",
            f"steps {last} without capturable=True",
            f"this {last} is stepped in the capture: capturable=True is missing",
            "capturable",
        )
    if last in _NO_CAPTURED_FORM:
        both("CG236", f"steps {last}, which reads values on the host and has no captured form", f"{last} has no captured form")
    # With fused=True the step count is on the GPU.
    counts = [decay and not fused for decay, fused in zip(_flag(groups, "lr_decay"), _flag(groups, "fused"), strict=True)]
    if last == "Adagrad" and any(counts):
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
            memory for group in groups for part in tensors_in(group.slots.get("params", Value())) for memory in part.storages
        }
        for layer in (part for part in machine.torch.sparse_layers if held & fingerprint_of(part)):
            machine.report_at("CG306", layer, "sparse=True gives gradients whose optimizer state is bound anew at every step")


def fingerprint_of(layer: Object) -> frozenset[int]:
    """Return the memory of a layer's weight."""
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


# `torch.amp.GradScaler` has the device in front of what `torch.cuda.amp.GradScaler` takes
_SCALER = (
    "device, init_scale, growth_factor, backoff_factor, growth_interval, enabled",
    "init_scale, growth_factor, backoff_factor, growth_interval, enabled",
)


def of_scaler(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a gradient scaler returns."""
    given = bind("optimizer|outputs", args, kwargs).positional()
    enabled = bind(_SCALER[owner.name.split(".")[1] == "cuda"], owner.args, owner.kwargs).get("enabled")
    is_off = isinstance(enabled, Host) and enabled.value is False
    if name == "get_scale" and not is_off:
        machine.report("CG237", node, f"{quoted(node)} reads the loss scale from the GPU")
        return number()
    if name == "scale":
        return _scaled(machine, given, node, is_off)
    if name == "step" and given:
        return _scaled_step(machine, given[0], node, is_off)
    return const(None)


def _scaled(machine: Machine, given: Args, node: ast.AST, is_off: bool) -> Value:
    """Return a loss that is multiplied by the scale."""
    if is_off:
        return given[0] if given else const(None)
    machine.gpu_work(node, *given)
    if given and isinstance(given[0], Tensor):
        return elementwise(machine, [given[0]], node)
    return given[0] if given else Value()


def _scaled_step(machine: Machine, optimizer: Value, node: ast.AST, is_off: bool) -> Value:
    """Run an optimizer's step: only a fused one skips it on the GPU where a gradient is infinite."""
    groups = groups_of(optimizer) if isinstance(optimizer, Object) else []
    if is_off or (groups and all(_flag(groups, "fused"))):
        return machine.call(Method(optimizer, "step"), [], {}, node)
    if groups:  # of an optimizer that is not known, nothing says that it is not fused
        machine.report(
            "CG237", node, f"{quoted(node)} reads on the host whether a gradient is infinite: the optimizer is not fused"
        )
    return const(None)
