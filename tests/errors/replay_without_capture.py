"""replay-without-capture: the capture raised, the exception was swallowed, the graph is replayed all the same."""

import contextlib

import torch


def fails() -> None:
    """`.item()` breaks the capture; the code goes on as if it had worked."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with contextlib.suppress(RuntimeError), torch.cuda.graph(g):
        x.sum().item()
    g.replay()


def works() -> None:
    """The region has no host read, so there is a graph to replay."""
    x = torch.ones(8, device="cuda")
    x.sum()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        total = x.sum()
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert total.item() == value * 8
