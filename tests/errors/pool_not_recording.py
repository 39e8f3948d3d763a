"""pool-not-recording: allocation to a pool is ended that was not begun."""

import torch


def fails() -> None:
    """A helper pauses the graph's pool, as serving engines do, but no capture is open."""
    torch.ones(8, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)


def works() -> None:
    """`use_mem_pool` begins and ends in pairs, also inside a capture."""
    x = torch.ones(8, device="cuda")
    pool = torch.cuda.MemPool()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        with torch.cuda.use_mem_pool(pool):
            y = x * 2
        z = y + 1
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert z.eq(value * 2 + 1).all()
