"""Make tensors and parameters, and set their attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.symbols import fresh, mix
from cudagraph_skill.check.interpreter.values import (
    External,
    Host,
    Instance,
    Mapping,
    Object,
    Tensor,
    Value,
    const,
    device,
    quoted,
    tensors_in,
)
from cudagraph_skill.check.library import builtins
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import autograd, devices
from cudagraph_skill.check.library.torch.tensor_methods import TENSOR_METHODS

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


def is_of_tensors(method: str) -> bool:
    """Tell whether tensors have a method of this name."""
    return method in TENSOR_METHODS


def finfo(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return the limits of a dtype."""
    del kwargs, node
    return Object("torch.finfo", args, {}, machine.round)


def device_of(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return a torch.device."""
    del node
    given = bind("type|device, index", args, kwargs).first()
    return device(devices.where_of(machine, given) if given is not None else "")


def parameter(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Make a parameter."""
    del node, machine
    source = bind("data, requires_grad", args, kwargs).get("data")
    made = Tensor(
        source.device if isinstance(source, Tensor) else "cuda", source.ndim if isinstance(source, Tensor) else None, "float"
    )
    made.parameter = "parameter"
    if isinstance(source, Tensor):
        made.first = source.first
    return made


def buffer(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Make a buffer."""
    made = parameter(machine, args, kwargs, node)
    if isinstance(made, Tensor):
        made.parameter = "buffer"
    return made


def set_default_device(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Set the device on which factories make tensors."""
    del node
    given = bind("device", args, kwargs).get("device")
    machine.torch.default_device = devices.where_of(machine, given) if given is not None else "cpu"
    machine.torch.default_of_call = machine.frame.function != "<module>"
    return const(None)


def sparse(layout: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    """Return the function that makes sparse tensors of a layout."""

    def make(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        where = next((tensor.device for arg in args for tensor in tensors_in(arg)), "cuda")
        if layout == "sparse" and where != "cpu":
            machine.gpu_work(node, *args)
        made = Tensor(where, 2)
        made.layout = layout
        del kwargs
        return made

    return make


def pack(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Pack a padded batch of sequences."""
    bound = bind("input, lengths, batch_first, enforce_sorted", args, kwargs)
    lengths, in_order = bound.get("lengths"), bound.get("enforce_sorted")
    if isinstance(lengths, Tensor) and lengths.on_gpu:
        machine.report("CG203", node, f"{quoted(node)} needs the lengths on the host")
    if isinstance(in_order, Host) and in_order.value is False:
        machine.report("CG221", node, f"{quoted(node)} copies the order of the lengths to the GPU: enforce_sorted=False")
    return Object("torch.nn.utils.rnn.PackedSequence", args, kwargs, machine.round)


def tensor_method(machine: Machine, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Run a method of a tensor that is no operation on its values."""
    del kwargs
    if name == "backward":
        if machine.inside:
            machine.torch.backward_at = machine.site(node)
            machine.torch.went_back = True
        else:
            machine.torch.gradients_left = machine.torch.gradients_held = True
        machine.gpu_work(node, owner)
        autograd.run_backwards(machine, node)
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
        return builtins.identity(machine, owner, node)
    return Value(mix(name, owner.sym))


def on_set(machine: Machine, owner: Value, name: str, new: Value, node: ast.AST) -> None:
    """Look at an attribute or item that is set: `.data`, `.grad`, parameters, global switches."""
    if machine.torch.setting is not None:
        machine.torch.setting(machine, owner, name, new, node)
    if isinstance(owner, Tensor):
        _set_of_tensor(machine, owner, name, new, node)
    elif isinstance(owner, External):
        _set_of_backend(machine, owner, name, new, node)
    elif isinstance(owner, Instance):
        before = owner.slots.get(name)
        # The module keeps a buffer under its name: what is assigned there later is one too.
        if isinstance(new, Tensor) and isinstance(before, Tensor) and before.parameter == "buffer":
            new.parameter = new.parameter or "buffer"
        if isinstance(new, Tensor) and new.parameter == "parameter" and owner.made < machine.round:
            machine.report(
                "CG303", node, f"{quoted(node)} is replaced by a new parameter: a replay goes on reading the old one"
            )
    elif isinstance(owner, Mapping):
        _set_of_group(machine, owner, name, new, node)


def _set_of_backend(machine: Machine, owner: External, name: str, new: Value, node: ast.AST) -> None:
    if owner.name == "torch.backends.cudnn" and name == "benchmark" and devices.is_true(new):
        machine.report("CG412", node, f"{quoted(node)} = True searches for algorithms at the first call of each shape")


def _set_of_group(machine: Machine, owner: Mapping, name: str, new: Value, node: ast.AST) -> None:
    """Report a learning rate that is set as a number in a capture."""
    if name == "lr" and "params" in owner.slots and machine.inside and not isinstance(new, Tensor):
        message = f"{quoted(node)} is set at capture only: the captured step keeps the number of that moment"
        machine.report("CG110", node, message)


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
