"""Measure what this GPU charges for a node of a graph and for a replay, and how fast it moves bytes and multiplies.

Times are taken before any profiler runs; how long the small kernels themselves take is read from a profile at the end.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd.profiler import profile

from cudagraph_skill.capture.guest import work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NODES, _TINY, _SMALL = 256, 1, 1 << 16  # nodes of a chain; elements of the kernels in it
_INSTANTIATIONS = 9  # of one chain: the price of a node differs between them, and the median is taken
_ROUNDS = 5
_BYTES, _SHARE_OF_FREE, _SHARE_OF_CACHE = 1 << 28, 16, 3
_SIDES = {2: 8192, 4: 4096, 8: 2048}  # of the square matrices that are multiplied, by bytes of an element
_DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "float16", "bfloat16")}


class Rates(NamedTuple):
    """The fastest that was seen: bytes a second from memory and from the cache, FLOPs a second by what is multiplied."""

    memory: float
    cache: float
    cache_bytes: int
    products: dict[str, float]


class Prices(NamedTuple):
    """Seconds of a node beside its kernel, of a replay beside its nodes, and of the shortest kernel; 0 where not known."""

    node: float
    replay: float
    shortest: float


class Chains:
    """Graphs of small kernels in a row, timed as they are made; `prices` profiles them when all else has been timed."""

    def __init__(self) -> None:
        self._profiled = [_chain(_TINY, _NODES), _chain(_SMALL, _NODES)]
        again = [_chain(_SMALL, _NODES) for _ in range(_INSTANTIATIONS - 1)]
        self._many = statistics.median(_best(graph.replay, 5) for graph, _ in (*self._profiled[1:], *again))
        one = _chain(_SMALL, 1)
        self._one = _best(one[0].replay, 5)

    def prices(self) -> Prices:
        """Profile both chains of many kernels, and return what is beside these kernels."""
        with profile(use_device="cuda", use_kineto=True) as recorded:
            torch.cuda.synchronize()
            for graph, _ in self._profiled:
                graph.replay()
            torch.cuda.synchronize()
        events = sorted(filter(is_work, recorded.kineto_results.events()), key=lambda event: event.start_ns())
        kernels = [event.duration_ns() / 1e9 for event in events]
        if len(kernels) != 2 * _NODES:
            return Prices(0.0, 0.0, 0.0)
        tiny, small = (sum(part) / _NODES for part in (kernels[:_NODES], kernels[_NODES:]))
        node = max(0.0, (self._many - self._one) / (_NODES - 1) - small)
        return Prices(node, max(0.0, self._one - small), min(tiny, small))


def on_gpu(event: Any) -> bool:
    """Return whether an event of a profile is of the GPU's time line."""
    return bool(event.device_type() == torch.autograd.DeviceType.CUDA)


def is_work(event: Any) -> bool:
    """Return whether an event of a profile is a kernel, a copy or a fill on the GPU."""
    return on_gpu(event) and not annotates(event)


def annotates(event: Any, ranges: tuple[str, ...] = ()) -> bool:
    """Return whether an event is a marked range, which spans kernels and is none.

    torch 2.4 does not say so: there it is one that begins like those of torch, ours, or `ranges`.
    """
    if hasattr(event, "is_user_annotation"):
        return bool(event.is_user_annotation())
    return str(event.name()).startswith(("ProfilerStep", "Optimizer.", "cudagraph_skill ", *ranges))


def _chain(size: int, count: int) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    value = torch.zeros(size, device="cuda")
    value.add_(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            value.add_(1)
    graph.replay()
    return graph, value


def rates(kinds: Iterable[str]) -> Rates:
    """Measure the rates for products of these kinds (dtypes, or tf32); kinds that cannot be multiplied here are left out."""
    free = torch.cuda.mem_get_info()[0]
    cache = torch.cuda.get_device_properties().L2_cache_size
    memory = _moved(min(_BYTES, free // _SHARE_OF_FREE))
    products = {kind: rate for kind in sorted(set(kinds)) if (rate := _multiplied(kind, free))}
    return Rates(memory, max(memory, _moved(cache // _SHARE_OF_CACHE)), cache, products)


def _moved(size: int) -> float:
    """Return bytes a second, read and written, of copies of a tensor in a graph, or read alone by a sum if that is more."""
    source = torch.zeros(max(size // 4, 1), device="cuda")
    target = torch.empty_like(source)
    copied = 2 * size / _in_graph(lambda: target.copy_(source))
    return max(copied, size / _in_graph(source.amax))


def _in_graph(call: Callable[[], object], count: int = 8) -> float:
    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    graph.replay()
    return _best(graph.replay, 1) / count


def _multiplied(kind: str, free: int) -> float:
    """Return FLOPs a second of a large product; 0 if there is none of this kind.

    The program's settings stay as they are: where they keep products of matrices from TF32, its rate is half that of bfloat16,
    as the data sheets of GPUs from Ampere on have it.
    """
    if kind == work.TF32 and not work.cuts(torch.backends.cuda.matmul):
        return _multiplied("bfloat16", free) / 2
    dtype = _DTYPES.get("float32" if kind == work.TF32 else kind)
    if dtype is None:
        return 0.0
    side = _SIDES[dtype.itemsize]
    if 3 * side * side * dtype.itemsize > free // 2:
        return 0.0
    matrix = torch.rand(side, side, device="cuda", dtype=dtype)
    out = torch.empty_like(matrix)
    torch.mm(matrix, matrix, out=out)
    return 2 * side**3 / _best(lambda: torch.mm(matrix, matrix, out=out), 1)


def _best(call: Callable[[], object], count: int) -> float:
    """Return the least seconds of a call, over `count` in a row."""
    taken = []
    for _ in range(_ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - start) / count)
    return min(taken)
