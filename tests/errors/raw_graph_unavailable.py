"""raw-graph-unavailable: the template of a graph that did not keep it."""

import torch


def fails() -> None:
    """The default throws the `cudaGraph_t` away when the capture ends."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x * 2
    g.raw_cuda_graph()


def works() -> None:
    """`keep_graph=True` keeps it."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(g):
        y = x * 2
    assert g.raw_cuda_graph() != 0
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
