"""allocator-capture-assert: memory is given back with a sync while the allocator believes that a capture is open."""

import torch


def fails() -> None:
    """A MemPool dies inside the region: its destructor syncs, the assert ends the process."""
    x = torch.ones(8, device="cuda")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        scratch = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x * 2
        del scratch, pool


def works() -> None:
    """It dies before the capture."""
    x = torch.ones(8, device="cuda")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        scratch = torch.ones(8, device="cuda")
    del scratch, pool
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x * 2
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
