"""instantiate-refused: a graph that instantiated itself is told to do so again."""

import torch


def fails() -> None:
    """With the default `keep_graph=False` leaving the block has instantiated already."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x * 2
    g.instantiate()


def works() -> None:
    """`keep_graph=True` leaves the instantiation to you."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(g):
        y = x * 2
    g.instantiate()
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
