"""pool-argument-type: a MemPool object where torch below 2.14 wants an id."""

import torch


def fails() -> None:
    """The object itself is passed."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, pool=torch.cuda.MemPool()):
        x * 2


def works() -> None:
    """Its id works in every release; the object stays alive beside the graph."""
    x = torch.ones(8, device="cuda")
    pool = torch.cuda.MemPool()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, pool=pool.id):
        y = x * 2
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
    g.reset()
    del y, pool
