"""replay-illegal-memory-access: the graph reads a tensor whose memory has gone back to the driver."""

import torch

COUNT = 32 << 20  # floats: 128 MiB, a segment of its own


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor, torch.Tensor]:
    x = torch.ones(COUNT, device="cuda")
    mask = torch.full((COUNT,), 2.0, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = x * mask
    return graph, x, out, mask


def _graph_replay(graph: torch.cuda.CUDAGraph) -> None:
    """One step, waited for: the error comes asynchronously."""
    graph.replay()
    torch.cuda.synchronize()


def fails() -> None:
    """The caller keeps graph, input and output, not the mask; its segment is freed."""
    graph, _x, _out = _record()[:3]
    torch.cuda.empty_cache()
    _graph_replay(graph)


def works() -> None:
    """The mask is kept as long as the graph."""
    graph, x, out, _mask = _record()
    torch.cuda.empty_cache()
    for value in (3.0, 5.0):
        x.fill_(value)
        _graph_replay(graph)
        assert out.eq(2 * value).all()
