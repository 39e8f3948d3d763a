"""pool-reused-after-graphs-died: a handle whose graphs are gone while a tensor of the pool still lives."""

import torch


def fails() -> None:
    """The model is reloaded: the old graph dies, its output is still referenced, the handle is used again."""
    x = torch.ones(8, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    old = torch.cuda.CUDAGraph()
    with torch.cuda.graph(old, pool=pool):
        kept = x * 2
    old.reset()
    new = torch.cuda.CUDAGraph()
    with torch.cuda.graph(new, pool=pool):
        x * 3
    del kept


def works() -> None:
    """A new set of graphs gets a new handle."""
    x = torch.ones(8, device="cuda")
    old = torch.cuda.CUDAGraph()
    with torch.cuda.graph(old, pool=torch.cuda.graph_pool_handle()):
        kept = x * 2
    old.reset()
    new = torch.cuda.CUDAGraph()
    with torch.cuda.graph(new, pool=torch.cuda.graph_pool_handle()):
        y = x * 3
    for value in (3.0, 5.0):
        x.fill_(value)
        new.replay()
        assert y.eq(value * 3).all()
    del kept
