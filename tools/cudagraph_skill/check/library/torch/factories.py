"""Make tensors: of a size, like another tensor, of Python values, of random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check import edits
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    Array,
    Host,
    Object,
    Sequence,
    Tensor,
    Value,
    origins_of,
    quoted,
    tensors_in,
)
from cudagraph_skill.check.library.torch import ops, random, results, transfer
from cudagraph_skill.check.library.torch.devices import dtype_of, is_true, where_of
from cudagraph_skill.check.library.torch.elementwise import elementwise
from cudagraph_skill.check.library.torch.failures import report_failures

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine
    from cudagraph_skill.check.library.binding import Arguments
    from cudagraph_skill.check.library.torch.ops import Operation

Args = list[Value]


def make(machine: Machine, row: Operation, args: Arguments, node: ast.AST) -> Tensor:
    """Return the tensor of `zeros(2, 3)` or `zeros_like(x)`."""
    report_failures(machine, row, args, node)
    like = args.first() if row.returns == ops.LIKE else None
    where = _device(machine, like, args)
    if (generator := args.get("generator")) is not None:
        random.on_generator(machine, generator, on_gpu=where != "cpu", node=node)
    ndim, first = _shape(row, args)
    dtype = results.dtype(row, like if isinstance(like, Tensor) else Tensor("cpu"), args, [])
    if row.names == ("arange",) and args.get("dtype") is None and _has_float(args.given(row.numbers)):
        dtype = ops.FLOAT
    made = Tensor(where, ndim, dtype, pinned=is_true(args.get("pin_memory")), first=first)
    values = args.values()
    if made.on_gpu:
        machine.gpu_work(node, *values)
        if machine.inside:
            machine.born |= made.storages
        return made
    if made.pinned:
        machine.report("CG503", node, f"{quoted(node)} allocates pinned memory at every call of the Python code")
    _name_contents(machine, made, row, args, node)
    return made


def _has_float(bounds: Args) -> bool:
    return any(isinstance(bound, Host) and bound.kind == "float" for bound in bounds)


def _device(machine: Machine, like: Value | None, args: Arguments) -> str:
    if like is None or args.get("device") is not None:
        return where_of(machine, args.get("device"))
    return like.device if isinstance(like, Tensor) else ""


def _name_contents(machine: Machine, made: Tensor, row: Operation, args: Arguments, node: ast.AST) -> None:
    """Mark what the contents of a new CPU tensor come from."""
    if row.random and _is_seeded_here(machine, args.get("generator")):
        made.sym = mix("seeded", getattr(node, "lineno", 0))
    elif row.random and machine.inside:
        made.origins = machine.origin("CG603", node, f"{quoted(node)} draws random numbers on the CPU: once, at capture")
    else:
        values = args.values()
        made.sym = made.sym if row.random else mix(row.names[0], *(value.sym for value in values))
        made.origins = origins_of(values)


def _is_seeded_here(machine: Machine, generator: Value | None) -> bool:
    """Return whether the numbers come from a generator that the same call makes: they are the same each time."""
    return isinstance(generator, Object) and generator.made >= machine.round


def cpu_random(machine: Machine, node: ast.AST, generator: Value | None = None) -> Tensor:
    """Return random numbers of the CPU: drawn once, at capture."""
    if _is_seeded_here(machine, generator):
        return Tensor("cpu", sym=mix("seeded", getattr(node, "lineno", 0)))
    message = f"{quoted(node)} draws random numbers on the CPU: once, at capture"
    return Tensor("cpu", origins=machine.origin("CG603", node, message))


def _shape(row: Operation, args: Arguments) -> tuple[int | None, int | None]:
    """Return the number of dimensions and the first size of a new tensor."""
    if row.shape == ops.SAME:
        like = args.first()
        return (like.ndim, like.first) if isinstance(like, Tensor) else (None, None)
    if row.shape != ops.GIVEN:
        return {ops.SCALAR: 0, ops.VECTOR: 1, ops.MATRIX: 2}.get(row.shape), None
    sizes = _randint_size(args) if "high" in row.numbers else args.given((args.signature.rest or "size",))
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        items = sizes[0].items
        return (None, None) if items is None else (len(items), _size(items))
    if len(sizes) == 1 and not _is_number(sizes[0]):
        return None, None
    return (len(sizes), _size(sizes)) if all(isinstance(size, Host) for size in sizes) else (None, None)


def _randint_size(args: Arguments) -> Args:
    """Return the size of `randint(low, high, size)` or `randint(high, size)`: the argument that is no number."""
    given = args.given(("low", "high", "size"))
    return [value for value in given if not isinstance(value, Host)] or given[-1:]


def _is_number(size: Value) -> bool:
    return isinstance(size, Host) and size.kind != "size" and not (size.known and isinstance(size.value, tuple))


def _size(items: Args) -> int | None:
    first = items[0] if items else None
    return first.value if isinstance(first, Host) and isinstance(first.value, int) else None


_GIVE_BACK = {"as_tensor", "asarray"}


def upload(machine: Machine, row: Operation, args: Arguments, node: ast.AST) -> Value:
    """Return the tensor of `torch.tensor`, `as_tensor`, `new_tensor` and their like: one of Python values."""
    like = args.get("input") if "input" in args.signature.names else None
    data = next((value for name in ("data", "obj", "ndarray") if (value := args.get(name)) is not None), Value())
    where = _device(machine, like, args)
    if isinstance(data, Tensor):
        return _of_tensor(machine, row, data, where, args, node)
    # It may be a tensor, which `as_tensor` gives back as it is.
    if type(data) is Value and row.names[0] in _GIVE_BACK and args.get("device") is None:
        return Tensor("", sym=mix(row.names[0], data.sym), origins=data.origins)
    return _of_values(machine, row, data, where, args, node)


def _of_values(machine: Machine, row: Operation, data: Value, where: str, args: Arguments, node: ast.AST) -> Tensor:
    """Return the tensor made of Python values, which are copied to where it is."""
    if any(tensor.on_gpu for tensor in tensors_in(data)):
        machine.report("CG201", node, f"{quoted(node)} reads each GPU tensor of the list on the host")
    made = Tensor(where, _dims_of(data), _dtype_of(data, args), sym=mix(row.names[0], data.sym), origins=origins_of([data]))
    made.pinned = is_true(args.get("pin_memory"))
    if isinstance(data, Sequence) and data.items is not None:
        made.sym = mix(row.names[0], *(item.sym for item in data.items))
        made.first = len(data.items)
    # of a device that is not known nothing is reported, unless the call names one
    named = args.get("device") is not None or ("input" in args.signature.names and args.get("input") is not None)
    if made.on_gpu and (where == "cuda" or named):
        _report_upload(machine, row, made, node)
        machine.gpu_work(node, data)
    return made


def _report_upload(machine: Machine, row: Operation, made: Tensor, node: ast.AST) -> None:
    # `torch.tensor(1.0, device=…)` of one number has a form that is made on the GPU
    edit = edits.made_on_gpu(node) if row.names == ("tensor",) and made.ndim == 0 else None
    machine.report("CG221", node, f"{quoted(node)} copies Python values to the GPU through unpinned memory", edit)


def _of_tensor(machine: Machine, row: Operation, data: Tensor, where: str, args: Arguments, node: ast.AST) -> Value:
    """Return the tensor that `torch.tensor(x)` or `as_tensor(x)` makes of another one."""
    if args.get("device") is not None and data.on_gpu != (where != "cpu"):
        return transfer.move(machine, data, where, node, waits=True)
    return data.view(data.ndim) if row.names[0] in _GIVE_BACK or not data.on_gpu else elementwise(machine, [data], node)


def legacy(machine: Machine, data: Value, node: ast.AST) -> Tensor:
    """Return the tensor of `torch.cuda.FloatTensor([1.0])`."""
    machine.report("CG221", node, f"{quoted(node)} copies Python values to the GPU through unpinned memory")
    return Tensor("cuda", _dims_of(data))


def _dims_of(data: Value) -> int | None:
    if isinstance(data, Host) and data.kind not in {"", "size"}:
        return 0
    if isinstance(data, Array):
        return data.ndim
    depth = 0
    while isinstance(data, Sequence):
        depth += 1
        inner = data.each()
        if not inner:
            return depth
        data = inner[0]
    return depth if depth and isinstance(data, (Host, Tensor)) else None


def _dtype_of(data: Value, args: Arguments) -> str:
    wanted = dtype_of(args.get("dtype"))
    if wanted is not None:
        return wanted
    while isinstance(data, Sequence):
        inner = data.each()
        data = inner[0] if inner else Value()
    if isinstance(data, Host) and data.known:
        return {bool: "bool", int: "int", float: "float"}.get(type(data.value), "")
    return ""
