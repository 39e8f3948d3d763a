"""oom-with-several-graphs: each graph has a pool of its own, so their peaks add up."""

import contextlib

import torch

MIB = 1 << 20
SIZES = (4, 3, 2, 1)  # largest first, so that the others fit into its memory


def _allow(mib: int) -> None:
    """Lets torch's allocator have this much, to stand for a small or a full GPU."""
    torch.cuda.set_per_process_memory_fraction(mib * MIB / torch.cuda.get_device_properties(0).total_memory)


def _step(x: torch.Tensor) -> torch.Tensor:
    """Three intermediates of 64 MiB for each unit of batch, one number out."""
    first = x.repeat(16 * MIB)
    second = first + 1
    return (second * first).mean()


def fails() -> None:
    """Pools of 768, 576, 384 and 192 MiB do not fit into 1 GiB: the first graph is captured, a later one is not."""
    _allow(1024)
    kept = []
    with contextlib.suppress(torch.OutOfMemoryError):
        for size in SIZES:
            x = torch.ones(size, device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = _step(x)
            kept.append((graph, x, out))
    assert 1 <= len(kept) < len(SIZES)


def works() -> None:
    """One pool, the largest graph first: no more memory than the largest one needs."""
    _allow(1024)
    pool, kept = torch.cuda.graph_pool_handle(), []
    for size in SIZES:
        x = torch.ones(size, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            out = _step(x)
        kept.append((graph, x, out))
    for value in (1.0, 2.0):
        for graph, x, out in kept:
            x.fill_(value)
            graph.replay()
            torch.testing.assert_close(out.item(), (value + 1) * value, rtol=1e-3, atol=1e-3)
