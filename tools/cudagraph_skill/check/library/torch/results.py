"""What an operation on tensors returns: dimensions, dtype, device, and whether it shares memory with its input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Host, Sequence, Tensor, Value, is_none
from cudagraph_skill.check.library.torch import ops
from cudagraph_skill.check.library.torch.devices import dtype_of, is_true

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine
    from cudagraph_skill.check.library.binding import Arguments
    from cudagraph_skill.check.library.torch.ops import Operation

_FEW = 12  # views that are told apart
_INT_PARTS = {"indices", "pivots", "info", "rank"}


def result(machine: Machine, row: Operation, args: Arguments, tensors: list[Tensor]) -> Value:
    """Return the value of an operation on these tensors."""
    main = main_tensor(args, tensors)
    if row.returns == ops.VIEW:
        return main.view(_dims_of_view(row, main, args))
    if row.returns in {ops.PARTS, ops.ROWS}:
        return _parts(machine, row, main, args)
    if row.returns == ops.PAIR or (row.returns == ops.PAIR_BY_DIM and dimension(args) is not None):
        return _tuple(machine, row, main, args, tensors)
    made = Tensor(_device(tensors), dims(row, main, args, tensors), dtype(row, main, args, tensors))
    if row.shape == ops.SAME:
        made.first = main.first
    made.layout = main.layout if row.layout == ops.KEPT else row.layout
    if any(tensor.layout == "graphed" for tensor in tensors):
        made.layout = "graphed"  # what is computed from a graphed callable's output has its one backward
    if machine.inside:
        machine.born |= made.storages
    return made


def main_tensor(args: Arguments, tensors: list[Tensor]) -> Tensor:
    """Return the tensor that decides the shape: the first argument, or the first tensor within it."""
    first = args.first()
    return first if isinstance(first, Tensor) else tensors[0]


def _device(tensors: list[Tensor]) -> str:
    on_gpu = next((tensor.device for tensor in tensors if tensor.device.startswith("cuda")), "")
    return on_gpu or ("" if any(tensor.on_gpu for tensor in tensors) else "cpu")


def dimension(args: Arguments) -> Value | None:
    """Return the argument that names a dimension, None where none is given."""
    given = args.get("dim")
    # `max(x, y)` compares two tensors, and the True of `std(x, True)` is a correction
    if given is None or is_none(given) or isinstance(given, Tensor) or (isinstance(given, Host) and given.kind == "bool"):
        return None
    return given


def dims(row: Operation, main: Tensor, args: Arguments, tensors: list[Tensor]) -> int | None:
    """Return the number of dimensions of a new tensor."""
    if row.shape == ops.REDUCED and not isinstance(args.get("dim"), Tensor):
        return _reduced(main, args)
    if row.shape == ops.LOSS:
        reduction = args.get("reduction")
        return 0 if reduction is None or (isinstance(reduction, Host) and reduction.value in {"mean", "sum"}) else None
    fixed = {ops.SCALAR: 0, ops.VECTOR: 1, ops.MATRIX: 2, ops.UNKNOWN: None}
    if row.shape in fixed:
        return fixed[row.shape]
    by_input = {ops.SAME: 0, ops.DIMS: 0, ops.MORE: 1, ops.FEWER: -1, ops.REDUCED: 0}
    if row.shape in by_input:
        return None if main.ndim is None else max(0, main.ndim + by_input[row.shape])
    return _together(tensors) if len(tensors) > 1 else main.ndim if row.shape == ops.BROADCAST else None


def _together(tensors: list[Tensor]) -> int | None:
    known = [tensor.ndim for tensor in tensors if tensor.ndim is not None]
    return max(known) if len(known) == len(tensors) else None


def _reduced(main: Tensor, args: Arguments) -> int | None:
    given = dimension(args)
    if given is None:
        return 0
    if main.ndim is None or is_true(args.get("keepdim")):
        return main.ndim
    count = len(given.items) if isinstance(given, Sequence) and given.items is not None else 1
    return max(0, main.ndim - count)


def _dims_of_view(row: Operation, main: Tensor, args: Arguments) -> int | None:
    if row.shape == ops.GIVEN:
        return main.ndim if dtype_of(args.get("dtype")) is not None else _given(main, args)
    if row.shape == ops.FLAT:
        return 1 if len(args.values()) == 1 else None
    return dims(row, main, args, [main]) if row.shape else None


def _given(main: Tensor, args: Arguments) -> int | None:
    """Return how many sizes `view(2, 3)` or `view((2, 3))` gives."""
    sizes = args.given((args.signature.rest or "size",))
    first = sizes[0] if sizes else None
    if isinstance(first, Sequence):
        return len(first.items) if first.items is not None else None
    if isinstance(first, Host) and first.kind in {"size", "dtype"}:
        return main.ndim if first.kind == "dtype" else None
    return len(sizes) if sizes and all(isinstance(size, (Host, Tensor)) for size in sizes) else None


def dtype(row: Operation, main: Tensor, args: Arguments, tensors: list[Tensor]) -> str:
    """Return the kind of numbers in a new tensor."""
    wanted = dtype_of(args.get("dtype"))
    if wanted is not None:
        return wanted
    if row.dtype == ops.CHOSEN:
        other = args.get("other")
        return other.dtype if isinstance(other, Tensor) else "float"
    if row.dtype in {ops.BOOL, ops.INT, ops.FLOAT}:
        return row.dtype
    if row.dtype == ops.KEPT or row.shape == ops.SAME:
        return main.dtype
    kinds = {tensor.dtype for tensor in tensors}
    # of one kind, or with a float among them; a sum of bools is of ints
    return kinds.pop() if len(kinds) == 1 and kinds != {"bool"} else "float" if "float" in kinds else ""


def _tuple(machine: Machine, row: Operation, main: Tensor, args: Arguments, tensors: list[Tensor]) -> Sequence:
    where, ndim = _device(tensors), dims(row, main, args, tensors)
    alike = row.shape != ops.DIMS or "indices" in row.parts  # the parts of a decomposition have shapes of their own
    parts: list[Value] = [
        Tensor(where, ndim if alike or place == 0 else None, "int" if part in _INT_PARTS else main.dtype)
        for place, part in enumerate(row.parts)
    ]
    return Sequence("tuple", parts, machine.round)


def _parts(machine: Machine, row: Operation, main: Tensor, args: Arguments) -> Sequence:
    by_row = row.returns == ops.ROWS
    ndim = main.ndim if not by_row or main.ndim is None else max(0, main.ndim - 1)
    count = _row_count(main, args) if by_row else _part_count(args)
    items: list[Value] | None = None if count is None else [main.view(ndim) for _ in range(count)]
    return Sequence("rows" if by_row else "parts", items, machine.round, main.view(ndim))


def _row_count(main: Tensor, args: Arguments) -> int | None:
    return main.first if args.get("dim") is None and main.first is not None and main.first <= _FEW else None


def _part_count(args: Arguments) -> int | None:
    if args.rest:
        return len(args.rest) if len(args.rest) > 1 else None
    chunks = args.get("chunks")
    if isinstance(chunks, Host) and isinstance(chunks.value, int) and chunks.value <= _FEW:
        return chunks.value
    sizes = next(iter(args.given(args.signature.positional[1:2])), None)
    return len(sizes.items) if isinstance(sizes, Sequence) and sizes.items is not None else None
