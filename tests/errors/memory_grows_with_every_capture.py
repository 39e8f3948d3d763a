"""memory-grows-with-every-capture: graphs that nobody needs any more are kept in a dictionary."""

from itertools import pairwise

import torch

COUNT = 16 << 20  # floats: 64 MiB


def fails() -> None:
    """A new graph for each sequence length, none is ever dropped."""
    x = torch.ones(COUNT, device="cuda")
    graphs, reserved = {}, []
    for length in range(4):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = x * length
        graphs[length] = (graph, out)
        reserved.append(torch.cuda.memory_reserved())
    assert all(later - earlier >= 4 * COUNT for earlier, later in pairwise(reserved))


def works() -> None:
    """The old graph and its output go before the next capture."""
    x = torch.ones(COUNT, device="cuda")
    reserved = []
    for length in range(4):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = x * length
        reserved.append(torch.cuda.memory_reserved())
        for value in (1.0, 2.0):
            x.fill_(value)
            graph.replay()
            assert out[0].item() == value * length
        torch.cuda.synchronize()
        graph.reset()
        del graph, out
    assert reserved[-1] == reserved[1]
