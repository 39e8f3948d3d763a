"""The conditions under which an operation fails at capture, asked of its bound arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Host, Sequence, Tensor, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.library.binding import Arguments

    Condition = Callable[[Arguments], bool]


def value_of(args: Arguments, name: str) -> object:
    """Return the Python value of an argument where it is known, None otherwise."""
    argument = args.get(name)
    return argument.value if isinstance(argument, Host) and argument.known else None


def is_true(name: str) -> Condition:
    """Ask whether an argument is certainly True."""
    return lambda args: value_of(args, name) is True


def is_not_true(name: str) -> Condition:
    """Ask whether an argument is left out, False or not known."""
    return lambda args: value_of(args, name) is not True


def is_missing(name: str) -> Condition:
    """Ask whether the call leaves an argument out."""
    return lambda args: args.get(name) is None


def is_given(name: str) -> Condition:
    """Ask whether the call has an argument."""
    return lambda args: args.get(name) is not None


def is_tensor(name: str) -> Condition:
    """Ask whether an argument is a tensor, wherever it is."""
    return lambda args: isinstance(args.get(name), Tensor)


def is_gpu_tensor(name: str) -> Condition:
    """Ask whether an argument is a tensor on the GPU."""
    return lambda args: _is_gpu_tensor(args.get(name))


def is_cpu_tensor(*names: str) -> Condition:
    """Ask whether one of these arguments is a tensor on the CPU."""
    return lambda args: any(isinstance(value, Tensor) and value.device == "cpu" for value in args.given(names))


def _is_gpu_tensor(value: object) -> bool:
    return isinstance(value, Tensor) and value.on_gpu


def has_one_argument(args: Arguments) -> bool:
    """Ask whether the call gives its first argument alone."""
    return len(args.values()) == 1


def compares_two(args: Arguments) -> bool:
    """Ask whether two tensors are compared: for a tensor and itself the answer is known without looking."""
    return args.get("input") is not args.get("other")


def is_not_coalesced(args: Arguments) -> bool:
    """Ask whether a sparse tensor may still have to be sorted."""
    tensor = args.get("input")
    return not (isinstance(tensor, Tensor) and tensor.layout == "coalesced")


def is_not_sorted_out(args: Arguments) -> bool:
    """Ask whether a sparse tensor is neither coalesced nor compressed: those need no more sorting."""
    first = args.first()
    return not any(tensor.layout in {"csr", "coalesced"} for tensor in (tensors_in(first) if first is not None else ()))


def multiplies_sparse(args: Arguments) -> bool:
    """Ask whether a factor is a sparse COO tensor; a product with a compressed one can be captured."""
    return any(isinstance(value, Tensor) and value.layout == "sparse" for value in args.values())


def infers_classes(args: Arguments) -> bool:
    """Ask whether the number of classes is left to the largest index."""
    return args.get("num_classes") is None or value_of(args, "num_classes") == -1


def repeats_by_tensor(args: Arguments) -> bool:
    """Ask whether the repeats are on the GPU and their sum is not given; a single argument is the repeats."""
    repeats = args.get("repeats") or args.get("input")
    return _is_gpu_tensor(repeats) and args.get("output_size") is None


def inverts(args: Arguments) -> bool:
    """Ask whether a matrix is raised to a negative power."""
    power = value_of(args, "n")
    return isinstance(power, int) and power < 0


def is_nuclear(args: Arguments) -> bool:
    """Ask whether `torch.norm` adds up singular values."""
    return value_of(args, "p") == "nuc"


def is_norm_of_matrix(args: Arguments) -> bool:
    """Ask whether `torch.linalg.norm`, of a matrix or over two dimensions, needs singular values."""
    tensor, dims = args.first(), args.get("dim")
    pair = len(dims.items or []) == 2 if isinstance(dims, Sequence) else dims is None and getattr(tensor, "ndim", None) == 2
    return value_of(args, "ord") == "nuc" or (pair and is_spectral_or_nuclear(args))


def is_spectral_or_nuclear(args: Arguments) -> bool:
    """Ask whether a norm of a matrix needs its singular values."""
    return value_of(args, "ord") in {"nuc", 2, -2}


def writes_through_mask(args: Arguments) -> bool:
    """Ask whether an index is a boolean mask on the GPU."""
    indices = args.get("indices")
    masks = indices.each() if isinstance(indices, Sequence) else []
    return any(isinstance(mask, Tensor) and mask.dtype == "bool" and mask.on_gpu for mask in masks)


def looks_for_many(args: Arguments) -> bool:
    """Ask whether `isin` sorts out unique elements: it does beyond a bound that stands in torch's source."""
    tensors = [value for value in args.given(("elements", "test_elements")) if isinstance(value, Tensor)]
    sizes = [tensor.first for tensor in tensors if tensor.ndim == 1 and tensor.first is not None]
    return len(sizes) == 2 and sizes[1] >= 10 * sizes[0] ** 0.145
