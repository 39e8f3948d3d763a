"""Read and write items of a tensor: which indices stay on the GPU, and which the host has to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import NONE, Array, Host, Sequence, Tensor, Value, is_none, origins_of, quoted
from cudagraph_skill.check.library.torch import in_place, transfer

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]


def _parts_of(subscript: Value) -> Args:
    """Return what stands between the commas of an index."""
    if not isinstance(subscript, Sequence):
        return [subscript]
    # a list of slices is read as a tuple, a list of numbers as one index
    has_slices = any(_is_slice(part) for part in subscript.each())
    as_tuple = subscript.kind == "tuple" or (subscript.kind == "list" and has_slices)
    return subscript.each() if as_tuple else [subscript]


def _is_slice(part: Value) -> bool:
    return isinstance(part, Sequence) and part.kind == "slice"


def _is_gpu_tensor(part: Value) -> bool:
    return isinstance(part, Tensor) and part.on_gpu


def _bounds_in(parts: Args) -> Args:
    """Return the bounds of slices and the items of lists in an index."""
    return [inner for part in parts if isinstance(part, Sequence) for inner in part.each()]


def _report_index(machine: Machine, owner: Tensor, subscript: Value, node: ast.AST, *, written: Value | None = None) -> None:
    """Report an index that the host has to read."""
    if not owner.on_gpu or not machine.inside:
        return
    for part in _parts_of(subscript):
        if isinstance(part, Tensor):
            _report_tensor_index(machine, part, node, written)
        elif isinstance(part, Array):
            machine.report("CG222", node, f"{quoted(node)} copies a numpy index to the GPU")
        elif isinstance(part, Sequence) and part.kind == "slice":
            if any(_is_gpu_tensor(bound) for bound in part.each()):
                machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as the bound of a slice")
        elif isinstance(part, Sequence) and part.kind in {"list", "range", "set"}:
            _report_list_index(machine, part, node)


def _report_tensor_index(machine: Machine, part: Tensor, node: ast.AST, written: Value | None) -> None:
    if part.on_gpu and part.dtype == "bool":
        # `x[mask] = 0.0` is one masked_fill, whose size the host does not need
        if not isinstance(written, Host):
            message = f"{quoted(node)} selects by a boolean mask: the number of hits is read on the host"
            machine.report("CG210", node, message)
    elif part.on_gpu and part.ndim == 0:
        machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as an index")
    elif part.device == "cpu" and part.ndim != 0:  # a CPU tensor of one number is read as a Python number
        machine.report("CG222", node, f"{quoted(node)} copies an index from the CPU to the GPU")


def _report_list_index(machine: Machine, part: Sequence, node: ast.AST) -> None:
    if any(_is_gpu_tensor(item) for item in part.each()):
        machine.report("CG216", node, f"{quoted(node)} reads the GPU tensors of an index list on the host")
    else:
        machine.report("CG222", node, f"{quoted(node)} copies an index list from the host to the GPU")


def index(machine: Machine, owner: Tensor, subscript: Value, node: ast.AST) -> Value:
    """Return `tensor[index]`."""
    _report_index(machine, owner, subscript, node)
    parts = _parts_of(subscript)
    if owner.on_gpu:
        machine.sink(*parts, *_bounds_in(parts), node=node)
        if tensors := [part for part in parts if isinstance(part, Tensor)]:
            machine.gpu_work(node, owner, *tensors)
    is_copy = any(isinstance(part, (Tensor, Array, Sequence)) and not _is_slice(part) for part in parts)
    ndim = _indexed_dims(owner, parts)
    if not is_copy:
        made = owner.view(ndim)
        made.origins |= origins_of(parts) if not owner.on_gpu else NONE
        made.sym = mix("index", owner.sym, *(part.sym for part in parts))
        return made
    new = Tensor(owner.device, ndim, owner.dtype, sym=mix("index", owner.sym, subscript.sym), origins=owner.origins)
    if machine.inside:
        machine.born |= new.storages
    return new


def _indexed_dims(owner: Tensor, parts: Args) -> int | None:
    """Return the number of dimensions of `owner[parts]`."""
    if owner.ndim is None:
        return None
    masks = [part for part in parts if isinstance(part, Tensor) and part.dtype == "bool"]
    if masks:
        return 1 if len(parts) == 1 and masks[0].ndim == owner.ndim else None
    changes = [_change_of_dims(part) for part in parts]
    return max(0, owner.ndim + sum(change or 0 for change in changes)) if None not in changes else None


def _change_of_dims(part: Value) -> int | None:
    """Return how many dimensions one part of an index adds."""
    if is_none(part):
        return 1
    if isinstance(part, Host):
        if part.value is ...:
            return 0
        return None if part.kind in {"", "bool", "size"} else -1
    if isinstance(part, Tensor):
        return None if part.ndim is None or part.dtype == "" else part.ndim - 1
    return 0 if isinstance(part, Sequence) else None


def set_index(machine: Machine, owner: Tensor, subscript: Value, new: Value, node: ast.AST) -> None:
    """Run `tensor[index] = new`."""
    _report_index(machine, owner, subscript, node, written=new)
    if owner.on_gpu:
        in_place.note_write(machine, owner, node)
        _report_number(machine, owner, subscript, new, node)
        if isinstance(new, Tensor) and new.device == "cpu" and new.ndim != 0:
            machine.report("CG221", node, f"{quoted(node)} = … copies unpinned CPU memory to the GPU")
        machine.gpu_work(node, owner, new, *_parts_of(subscript))
        machine.sink(*_bounds_in(_parts_of(subscript)), node=node)
    elif isinstance(new, Tensor) and new.on_gpu:
        transfer.download_into(machine, owner, new, node, waits=True)
    else:
        owner.sym = mix("set", subscript.sym, new.sym)
        owner.origins |= origins_of([subscript, new])


def _report_number(machine: Machine, owner: Tensor, subscript: Value, new: Value, node: ast.AST) -> None:
    """Report `tensor[0, 0] = 1.0` and `tensor[ids] = 0`: a number for one element, or for indices, comes from the CPU."""
    if isinstance(new, Tensor) and new.device == "cpu" and new.ndim == 0:
        machine.report("CG221", node, f"{quoted(node)} = … copies a CPU tensor to the GPU")
    if not isinstance(new, Host):
        return
    parts = _parts_of(subscript)
    numbers = [part for part in parts if isinstance(part, Host) and part.kind in {"int", "number", "extent"}]
    if any(map(_is_index_tensor, parts)):
        what = "these indices"
    elif owner.ndim is not None and len(numbers) == len(parts) == owner.ndim:
        what = "a single element"
    else:
        return
    machine.report(
        "CG221",
        node,
        f"{quoted(node)} = … copies a Python number for {what} to the GPU: use a GPU tensor, or fill_ on a slice",
    )


def _is_index_tensor(part: Value) -> bool:
    return isinstance(part, Tensor) and part.on_gpu and part.dtype == "int" and part.ndim != 0


def update_index(machine: Machine, owner: Tensor, subscript: Value, new: Value, node: ast.AugAssign) -> None:
    """Run `tensor[index] op= new`."""
    parts = _parts_of(subscript)
    if owner.on_gpu and any(isinstance(part, Tensor) and part.dtype == "bool" and part.on_gpu for part in parts):
        machine.report(
            "CG210", node, f"{quoted(node)} reads and writes through a boolean mask: the positions are read on the host"
        )
    else:
        _report_index(machine, owner, subscript, node)
    in_place.update(machine, owner, [new, *parts], node)
    machine.sink(*_bounds_in(parts), node=node)
