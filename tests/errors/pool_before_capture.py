"""pool-before-capture: the pool of a graph is asked for before the graph was captured."""

import torch


def fails() -> None:
    """The second graph shall share the first one's memory, but the first is not captured yet."""
    x = torch.ones(8, device="cuda")
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=first.pool()):
        x * 2


def works() -> None:
    """A handle exists before any capture and goes to all of them."""
    x = torch.ones(8, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first, pool=pool):
        y = x * 2
    with torch.cuda.graph(second, pool=pool):
        z = y + 1
    assert first.pool() == second.pool()
    for value in (3.0, 5.0):
        x.fill_(value)
        first.replay()
        second.replay()
        assert z.eq(value * 2 + 1).all()
