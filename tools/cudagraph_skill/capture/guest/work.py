"""Count what a call must do whatever its kernels: the bytes that it must move, and its products, from the real tensors.

Memory that a call makes for itself costs nothing here, because fused kernels would keep it on the chip; what was there before,
and what stays after the call, counts once. Products of matrices, convolutions and attention are counted one by one, with the
formulas of torch.utils.flop_counter. Kernels that torch's dispatcher does not see (compiled code, Triton) are not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.flop_counter import flop_registry

from cudagraph_skill.capture.guest import operations, tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudagraph_skill.capture.guest.load import Subject

# Operations that read as much of their first argument as they return
_CHOOSING = {"aten::embedding", "aten::index", "aten::index_select", "aten::gather", "aten::take", "aten::masked_select"}
_CONVOLUTIONS = "convolution"
TF32 = "tf32"


class Product(NamedTuple):
    """A product, convolution or attention: its FLOPs, what it multiplies (a dtype, or tf32), the bytes that it reads first."""

    flops: int
    kind: str
    bytes: int


class Work(NamedTuple):
    """What one call must do: its products in order, and all bytes that it must move."""

    products: list[Product]
    bytes: int


def counted(subject: Subject, args: Any, kwargs: Mapping[str, Any]) -> Work:
    """Make one eager call, and count its work on the GPU."""
    with _Counter() as counter:
        out = subject.call(*args, **kwargs)
    torch.cuda.synchronize()
    stays = {operations.memory(tensor): _size(tensor) for tensor in _on_gpu(out)}
    made = sum(size for memory, size in stays.items() if memory in counter.made)
    return Work(counter.products, counter.read + sum(counter.written.values()) + made)


class _Counter(operations.Mode):
    """Follows the memory of a call: what it made, what it read first, what it wrote of what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Product] = []
        self.made: set[int] = set()
        self.written: dict[int, int] = {}
        self.read = 0
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no memory is given to another tensor while this counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation, or those that it is made of, and count it."""
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):  # a higher-order operator has no schema
            return func(*args, **kwargs)
        if func._overloadpacket not in flop_registry:  # in inference mode aten.linear arrives here, which has no formula
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        changed = operations.written(func, args, kwargs)
        results = list({id(tensor): tensor for tensor in (*_on_gpu(out), *_on_gpu(changed))}.values())
        if results and not _only_looks(func):
            self._count(func, args, kwargs, results, out)
        return out

    def _count(self, func: Any, args: Any, kwargs: Any, results: list[Any], out: Any) -> None:
        self._alive += results
        given = _on_gpu((args, kwargs))
        before = {operations.memory(tensor) for tensor in given}
        most = sum(map(_size, results)) if func._schema.name in _CHOOSING else None
        moved = sum(self._first_read(tensor, most) for tensor in given if operations.memory(tensor) not in self.made)
        self.read += moved
        for tensor in results:
            where = operations.memory(tensor)
            if where not in before and where not in self._seen:
                self.made.add(where)
            elif where not in self.made:
                self.written[where] = max(_size(tensor), self.written.get(where, 0))
        flops = _flops(func, args, kwargs, out)
        if flops:
            self.products.append(Product(flops, _kind(func, given), moved))

    def _first_read(self, tensor: Any, most: int | None) -> int:
        """Return the bytes of a tensor that was there before the call and is read for the first time."""
        size, where = _size(tensor) if most is None else min(_size(tensor), most), operations.memory(tensor)
        already = self._seen.get(where, 0)
        self._seen[where] = max(size, already)
        return max(0, size - already)


def _flops(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    count = flop_registry.get(func._overloadpacket)
    try:
        return int(count(*args, **kwargs, out_val=out)) if count is not None else 0
    except (AssertionError, ValueError, RuntimeError):  # a form that the formula does not know, such as grouped queries
        return 0


def _kind(func: Any, given: list[Any]) -> str:
    """Return what a product multiplies: floats may be cut to TF32, which is set for convolutions and for the rest apart."""
    dtype = str(given[0].dtype).removeprefix("torch.")
    convolves = _CONVOLUTIONS in func._schema.name
    return TF32 if dtype == "float32" and cuts(torch.backends.cudnn if convolves else torch.backends.cuda.matmul) else dtype


def cuts(backend: Any) -> bool:
    """Return whether a part of torch may cut floats to TF32."""
    try:
        return bool(backend.allow_tf32)
    except RuntimeError:  # the program set it by the names of torch 2.9 and later, and the old ones refuse to answer
        return bool(getattr(backend, "conv", backend).fp32_precision == TF32)


def _only_looks(func: Any) -> bool:
    """Return whether an operation makes views only, or memory without values."""
    returns = func._schema.returns
    looks = bool(returns) and all(value.alias_info is not None and not value.alias_info.is_write for value in returns)
    return looks or func._schema.name.startswith(("aten::empty", "aten::_unsafe_view", "aten::detach"))


def _on_gpu(value: Any) -> list[Any]:
    """Return the plain tensors with memory on a GPU."""
    return [tensor for tensor in tensors.tensors(value) if tensor.is_cuda and tensor.layout is torch.strided and tensor.numel()]


def _size(tensor: Any) -> int:
    """Return the bytes of a tensor's elements, those of an expanded one once."""
    elements = 1
    for size, step in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if step else 1
    return int(elements * tensor.element_size())
