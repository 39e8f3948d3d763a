"""Read and write items of a tensor: which indices stay on the GPU, and which the host has to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import (
    NONE,
    Array,
    Host,
    Sequence,
    Tensor,
    Value,
    is_none,
    mix,
    origins_of,
    quoted,
)
from cudagraph_skill.check.library.torch import in_place, transfer

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]


def _index_parts(found: Value) -> Args:
    if not isinstance(found, Sequence):
        return [found]
    several = any(
        isinstance(each, Sequence) and each.kind == "slice" for each in found.each()
    )  # a list of slices is a tuple too
    return found.each() if found.kind == "tuple" or (found.kind == "list" and several) else [found]


def _index_hazard(machine: Machine, owner: Tensor, found: Value, node: ast.AST, *, writing: Value | None = None) -> None:
    """Report an index that the host has to read."""
    if not owner.on_gpu or not machine.inside:
        return
    parts = _index_parts(found)
    for part in parts:
        if isinstance(part, Tensor) and part.on_gpu:
            if part.dtype == "bool":
                if not isinstance(writing, Host):
                    machine.report(
                        "CG210", node, f"{quoted(node)} selects by a boolean mask: the number of hits is read on the host"
                    )
            elif part.ndim == 0:
                machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as an index")
        elif isinstance(part, Tensor) and part.device == "cpu" and part.ndim != 0:
            machine.report("CG222", node, f"{quoted(node)} copies an index from the CPU to the GPU")
        elif isinstance(part, Array):
            machine.report("CG222", node, f"{quoted(node)} copies a numpy index to the GPU")
        elif isinstance(part, Sequence) and part.kind == "slice":
            if any(isinstance(each, Tensor) and each.on_gpu for each in part.each()):
                machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as the bound of a slice")
        elif isinstance(part, Sequence) and part.kind in {"list", "range", "set"}:
            _list_index(machine, part, node)


def _list_index(machine: Machine, part: Sequence, node: ast.AST) -> None:
    if any(isinstance(each, Tensor) and each.on_gpu for each in part.each()):
        machine.report("CG216", node, f"{quoted(node)} reads the GPU tensors of an index list on the host")
    else:
        machine.report("CG222", node, f"{quoted(node)} copies an index list from the host to the GPU")


def index(machine: Machine, owner: Tensor, found: Value, node: ast.AST) -> Value:
    """Return `tensor[index]`."""
    _index_hazard(machine, owner, found, node)
    parts = _index_parts(found)
    if owner.on_gpu:
        machine.sink(*parts, *(each for part in parts if isinstance(part, Sequence) for each in part.each()), node=node)
        if any(isinstance(each, Tensor) for each in parts):
            machine.gpu_work(node, owner, *[each for each in parts if isinstance(each, Tensor)])
    fancy = any(isinstance(each, (Tensor, Array)) or (isinstance(each, Sequence) and each.kind != "slice") for each in parts)
    ndim = _indexed_ndim(owner, parts)
    if not fancy:
        made = owner.view(ndim)
        made.origins |= origins_of(parts) if not owner.on_gpu else NONE
        made.sym = mix("index", owner.sym, *(each.sym for each in parts))
        return made
    new = Tensor(owner.device, ndim, owner.dtype, sym=mix("index", owner.sym, found.sym), origins=owner.origins)
    if machine.inside:
        machine.born |= new.storages
    return new


def _indexed_ndim(owner: Tensor, parts: Args) -> int | None:
    if owner.ndim is None:
        return None
    ndim = owner.ndim
    for part in parts:
        if is_none(part):
            ndim += 1
        elif isinstance(part, Host) and part.value is ...:
            continue
        elif isinstance(part, Host):
            if part.kind in {"", "bool", "size"}:
                return None
            ndim -= 1
        elif isinstance(part, Tensor):
            if part.ndim is None or part.dtype in {"bool", ""}:
                return None if part.dtype != "bool" else 1 if len(parts) == 1 and part.ndim == owner.ndim else None
            ndim += part.ndim - 1
        elif isinstance(part, Sequence) and part.kind == "slice":
            continue
        elif not isinstance(part, Sequence):
            return None
    return max(0, ndim)


def set_index(machine: Machine, owner: Tensor, found: Value, new: Value, node: ast.AST) -> None:
    """Run `tensor[index] = new`."""
    _index_hazard(machine, owner, found, node, writing=new)
    if owner.on_gpu:
        _number_into(machine, owner, found, new, node)
        if isinstance(new, Tensor) and new.device == "cpu" and new.ndim != 0:
            machine.report("CG221", node, f"{quoted(node)} = … copies unpinned CPU memory to the GPU")
        machine.gpu_work(node, owner, new, *_index_parts(found))
        machine.sink(*[each for part in _index_parts(found) if isinstance(part, Sequence) for each in part.each()], node=node)
    elif isinstance(new, Tensor) and new.on_gpu:
        transfer.download_into(machine, owner, new, node, waits=True)
    else:
        owner.sym = mix("set", found.sym, new.sym)
        owner.origins |= origins_of([found, new])


def _number_into(machine: Machine, owner: Tensor, found: Value, new: Value, node: ast.AST) -> None:
    """`tensor[0, 0] = 1.0` and `tensor[ids] = 0`: a number for a single element, or for indices, comes from the CPU."""
    parts = _index_parts(found)
    if isinstance(new, Tensor):
        if new.device == "cpu" and new.ndim == 0:
            machine.report("CG221", node, f"{quoted(node)} = … copies a CPU tensor to the GPU")
        return
    if not isinstance(new, Host):
        return
    by_ids = any(isinstance(each, Tensor) and each.on_gpu and each.dtype == "int" and each.ndim != 0 for each in parts)
    numbers = [each for each in parts if isinstance(each, Host) and each.kind in {"int", "number", "extent"}]
    if by_ids or (owner.ndim is not None and len(numbers) == len(parts) == owner.ndim):
        what = "these indices" if by_ids else "a single element"
        machine.report(
            "CG221",
            node,
            f"{quoted(node)} = … copies a Python number for {what} to the GPU: use a GPU tensor, or fill_ on a slice",
        )


def update_index(machine: Machine, owner: Tensor, found: Value, new: Value, node: ast.AugAssign) -> None:
    """Run `tensor[index] op= new`."""
    parts = _index_parts(found)
    if owner.on_gpu and any(isinstance(each, Tensor) and each.dtype == "bool" and each.on_gpu for each in parts):
        machine.report(
            "CG210", node, f"{quoted(node)} reads and writes through a boolean mask: the positions are read on the host"
        )
    else:
        _index_hazard(machine, owner, found, node)
    in_place.update(machine, owner, [new, *parts], node)
    machine.sink(*[each for part in parts if isinstance(part, Sequence) for each in part.each()], node=node)
