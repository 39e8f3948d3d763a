"""Copies between the CPU and the GPU: `to`, `cuda`, `cpu`, `numpy`, `copy_`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check import edits
from cudagraph_skill.check.interpreter.values import Array, External, Host, Tensor, Value, is_none, quoted
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import ops
from cudagraph_skill.check.library.torch.devices import dtype_of, is_true, where_of

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine
    from cudagraph_skill.check.library.binding import Arguments

Args = list[Value]
Kwargs = dict[str, Value]


def move(machine: Machine, tensor: Tensor, where: str, node: ast.AST, *, waits: bool) -> Tensor:
    """Return a copy of a tensor on another device, or the tensor itself."""
    if {where, tensor.device} == {"cuda", "cuda:other"}:
        machine.report("CG507", node, f"{quoted(node)} moves work to another GPU")
        machine.gpu_work(node, tensor)
        return Tensor(where, tensor.ndim, tensor.dtype)
    if where == "cpu" and tensor.on_gpu:
        return _download(machine, tensor, node, waits=waits)
    if where != "cpu" and tensor.device == "cpu":
        _report_upload(machine, tensor, node, waits=waits)
        machine.gpu_work(node, tensor)
        made = Tensor(where, tensor.ndim, tensor.dtype)
        made.first, made.parameter = tensor.first, tensor.parameter
        return made
    same = tensor.view(tensor.ndim)
    same.first, same.optional, same.parameter = tensor.first, tensor.optional, tensor.parameter
    return same


def _download(machine: Machine, tensor: Tensor, node: ast.AST, *, waits: bool) -> Tensor:
    if waits:
        machine.report("CG203", node, f"{quoted(node)} copies a GPU tensor to the host and waits for it")
    machine.gpu_work(node, tensor)
    made = Tensor("cpu", tensor.ndim, tensor.dtype, pinned=not waits)
    made.downloaded = machine.inside and not waits
    machine.torch.downloads |= made.storages if made.downloaded else frozenset()
    made.first = tensor.first
    return made


def _report_upload(machine: Machine, source: Tensor, node: ast.AST, *, waits: bool) -> None:
    """Report a copy from the CPU that a capture cannot hold: it needs pinned memory, and must not wait."""
    if not source.pinned:
        machine.report("CG221", node, f"{quoted(node)} copies unpinned CPU memory to the GPU")
    elif waits:
        message = f"{quoted(node)} waits for a copy out of pinned memory: non_blocking=True is missing"
        machine.report("CG223", node, message, edits.keyword(node, "non_blocking", "True"))


def copy_into(machine: Machine, tensor: Tensor, source: Value | None, node: ast.AST, *, waits: bool) -> None:
    """Report what `gpu.copy_(source)` cannot do in a capture."""
    if not isinstance(source, Tensor):
        return
    if {source.device, tensor.device} == {"cuda", "cuda:other"}:
        machine.report("CG507", node, f"{quoted(node)} copies to another GPU")
    if source.device == "cpu":
        _report_upload(machine, source, node, waits=waits)


def download_into(machine: Machine, tensor: Tensor, source: Tensor, node: ast.AST, *, waits: bool) -> None:
    """Run `cpu.copy_(gpu)`: the CPU may read it once something has waited."""
    if not tensor.pinned:
        machine.report("CG224", node, f"{quoted(node)} copies a GPU tensor into unpinned CPU memory")
    elif waits:
        message = f"{quoted(node)} waits for a copy into pinned memory: non_blocking=True is missing"
        machine.report("CG223", node, message, edits.keyword(node, "non_blocking", "True"))
    machine.gpu_work(node, source)
    if machine.inside:
        tensor.downloaded = True
        machine.torch.downloads |= tensor.storages
    elif not waits and machine.torch.script:
        machine.torch.inflight |= tensor.storages


def _to(machine: Machine, owner: Tensor, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    # overloads begin with a device, a dtype or a tensor: each argument tells by its kind what it is
    bound = bind("*given, device, dtype, other, non_blocking, copy, memory_format", args, kwargs)
    where, dtype = _wanted(machine, owner, bound)
    if where is None and owner.device == "cpu" and any(type(value) is Value for value in bound.rest):
        return Tensor("", owner.ndim, dtype, owner.storages, owner.sym, owner.origins)
    # a device that is not known is taken to be where the tensor already is, unless that is the CPU
    if where is None or (where == "" and owner.device != "cpu"):
        moved = owner.view(owner.ndim)
    else:
        waits = not any(is_true(value) for value in (*bound.rest, bound.get("non_blocking")))
        moved = move(machine, owner, where, node, waits=waits)
    names_dtype = any(dtype_of(value) is not None for value in bound.values())  # two floats may still differ in their width
    if (names_dtype or dtype != owner.dtype) and moved.storages == owner.storages:
        return _converted(machine, owner, dtype, node)
    moved.dtype, moved.first = dtype, owner.first
    return moved


def _wanted(machine: Machine, owner: Tensor, bound: Arguments) -> tuple[str | None, str]:
    """Return the device and the dtype that the arguments of `to` ask for."""
    where: str | None = None
    dtype = owner.dtype
    for value in bound.values():
        wanted = dtype_of(value)
        if isinstance(value, Tensor):
            where, dtype = value.device, value.dtype
        elif wanted is not None:
            dtype = wanted
        elif isinstance(value, Host) and (value.kind == "device" or isinstance(value.value, str)):
            where = where_of(machine, value)
    device = bound.get("device")
    if where is None and device is not None and not is_none(device):
        where = where_of(machine, device)
    return where, dtype


def _converted(machine: Machine, owner: Tensor, dtype: str, node: ast.AST) -> Tensor:
    if owner.on_gpu:
        machine.gpu_work(node, owner)
    copy = Tensor(owner.device, owner.ndim, dtype, None, owner.sym, owner.origins)
    copy.first = owner.first
    return copy


def _cuda(machine: Machine, owner: Tensor, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    bound = bind("device, non_blocking, memory_format", args, kwargs)
    given = bound.get("device")
    waits = not is_true(bound.get("non_blocking")) and not is_true(given)
    where = "cuda" if given is None or is_none(given) or is_true(given) else where_of(machine, given)
    return move(machine, owner, where, node, waits=waits)


def _cpu(machine: Machine, owner: Tensor, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    return move(machine, owner, "cpu", node, waits=True)


def _type(machine: Machine, owner: Tensor, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    wanted = bind("dtype, non_blocking", args, kwargs).get("dtype")
    if wanted is None:
        return Host("str")
    name = wanted.name if isinstance(wanted, External) else wanted.value if isinstance(wanted, Host) else ""
    if isinstance(name, str) and name.endswith("Tensor"):
        return move(machine, owner, "cuda" if "cuda" in name else "cpu", node, waits=True)
    return _to(machine, owner, args, kwargs, node)


def _numpy(machine: Machine, owner: Tensor, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    if owner.on_gpu:
        failure = ops.find("numpy").failures[0]
        machine.report(failure.hazard, node, f"{quoted(node)} {failure.because}")
    return Array(owner.ndim, owner.sym, owner.origins)


METHODS: dict[str, Callable[[Machine, Tensor, Args, Kwargs, ast.AST], Value]] = {
    "to": _to, "cuda": _cuda, "cpu": _cpu, "type": _type, "type_as": _to, "numpy": _numpy,
}  # fmt: skip
