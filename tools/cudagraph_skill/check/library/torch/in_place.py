"""Change a tensor in place: on the GPU a replay does it again, on the CPU it happened once, at capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.symbols import fresh, mix
from cudagraph_skill.check.interpreter.values import Host, Tensor, Value, origins_of, quoted
from cudagraph_skill.check.library.torch import ops, transfer
from cudagraph_skill.check.library.torch.devices import is_true

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]


def is_in_place(name: str) -> bool:
    """Return whether an operation changes its input, as `add_` does and `__add__` does not."""
    return name.endswith("_") and not name.endswith("__")


def update(machine: Machine, tensor: Tensor, args: Args, node: ast.AST, full: str = "add_") -> Tensor:
    """Run an operation in place and return the same tensor; `args` are those after the tensor."""
    name = full.rsplit(".", 1)[-1]
    source = args[0] if args else None
    if tensor.on_gpu:
        _update_on_gpu(machine, tensor, node, name)
        if name == "copy_":
            transfer.copy_into(machine, tensor, source, node, waits=not is_true(args[1] if len(args) > 1 else None))
        machine.gpu_work(node, tensor, *args)
        return tensor
    from_gpu = next((value for value in args if isinstance(value, Tensor) and value.on_gpu), None)
    if from_gpu is not None and name == "copy_":
        waits = not any(is_true(value) for value in args if isinstance(value, Host))
        transfer.download_into(machine, tensor, from_gpu, node, waits=waits)
        return tensor
    _update_on_cpu(machine, tensor, args, node, full)
    if tensor.base is not None:
        tensor.base.sym, tensor.base.origins = tensor.sym, tensor.origins
    return tensor


def note_write(machine: Machine, tensor: Tensor, node: ast.AST) -> None:
    """Note that GPU memory is written in place, and where captured code has not made it."""
    machine.fill(tensor.storages)
    given = min(tensor.storages) < machine.torch.mark or tensor.storages & machine.torch.inputs
    if machine.inside and given and not tensor.parameter:
        machine.inputs_written.setdefault(machine.site(node), (quoted(node), tensor.storages))


def _update_on_gpu(machine: Machine, tensor: Tensor, node: ast.AST, name: str) -> None:
    older = min(tensor.storages) < machine.torch.mark
    if name == "set_" and older:
        machine.report("CG303", node, f"{quoted(node)} gives the tensor new memory: a replay goes on reading the old")
    note_write(machine, tensor, node)
    if machine.inside:
        machine.updated |= tensor.storages
        if older:
            machine.guarded_change()


def _update_on_cpu(machine: Machine, tensor: Tensor, args: Args, node: ast.AST, full: str) -> None:
    row = ops.find(full)
    if not machine.inside:
        machine.mutate(tensor, node, *args)
        if row.random:
            tensor.sym = fresh()
    elif row.random:
        tensor.sym = fresh()
        tensor.origins |= machine.origin("CG603", node, f"{quoted(node)} draws random numbers on the CPU: once, at capture")
    elif row.renews:
        tensor.sym = mix(full, *(value.sym for value in args))
        tensor.origins = origins_of(args)
    else:
        machine.mutate(tensor, node, *args)
        if min(tensor.storages) < machine.torch.mark:  # memory of this round is filled anew at every call
            machine.mutated |= tensor.storages
            tensor.origins |= machine.origin("CG106", node, f"{quoted(node)} changes CPU memory; a replay does not repeat it")
