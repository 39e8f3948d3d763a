"""raw-exec-unavailable: the executable graph is asked for before it was built."""

import torch


def fails() -> None:
    """With `keep_graph=True` nothing is instantiated until you or the first replay do it."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(g):
        x * 2
    g.raw_cuda_graph_exec()


def works() -> None:
    """`instantiate()` first."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(g):
        y = x * 2
    g.instantiate()
    assert g.raw_cuda_graph_exec() != 0
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
