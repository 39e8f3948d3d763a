"""garbage-after-capture: the output is read before the first replay."""

import torch


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
    x = torch.full((1 << 20,), 41.5, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = x + 1
    return graph, x, out


def fails() -> None:
    """The capture recorded the addition, it did not compute it."""
    _graph, x, out = _record()
    torch.cuda.synchronize()
    assert not torch.equal(out, x + 1)


def works() -> None:
    """The first values come with the first replay."""
    graph, x, out = _record()
    for value in (41.5, -3.0):
        x.fill_(value)
        graph.replay()
        assert torch.equal(out, x + 1)
