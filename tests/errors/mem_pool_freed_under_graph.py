"""mem-pool-freed-under-graph: a MemPool used inside the capture dies before the graph."""

import torch


def _capture(x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.cuda.MemPool]:
    """The temporary lies in a pool of its own, which torch below 2.14 does not keep for the graph."""
    pool = torch.cuda.MemPool()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        with torch.cuda.use_mem_pool(pool):
            part = x * 2
        total = part.mean()
        del part
    return g, total, pool


def fails() -> None:
    """The pool goes out of scope and returns 64 MiB to the driver; the replay still writes there."""
    x = torch.ones(16 * 2**20, device="cuda")
    x.mul(2).mean()
    g, _ = _capture(x)[:2]
    torch.cuda.empty_cache()
    g.replay()
    fault = ""
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        fault = str(error)
    assert "illegal memory access" in fault


def works() -> None:
    """The pool object is kept with the graph."""
    x = torch.ones(16 * 2**20, device="cuda")
    x.mul(2).mean()
    g, total, pool = _capture(x)
    for value in (1.0, 2.0):
        x.fill_(value)
        g.replay()
        assert total.item() == value * 2
    g.reset()
    del pool
