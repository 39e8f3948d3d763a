"""memory-not-freed-after-del-graph: a static output keeps the pool's memory after the graph is gone."""

import torch

COUNT = 16 << 20  # floats: 64 MiB


def _record(x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = x * 2
    return graph, out


def fails() -> None:
    """The list of results holds the captured output itself."""
    x = torch.ones(COUNT, device="cuda")
    before = torch.cuda.memory_reserved()
    graph, out = _record(x)
    graph.replay()
    torch.cuda.synchronize()
    results = [out]
    graph.reset()
    del graph, out
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - before >= 4 * COUNT
    assert len(results) == 1


def works() -> None:
    """Only copies leave the graph, and they are on the CPU."""
    x = torch.ones(COUNT, device="cuda")
    before = torch.cuda.memory_reserved()
    graph, out = _record(x)
    results = []
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        results.append(out.cpu())
    graph.reset()
    del graph, out
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - before < 4 * COUNT
    assert [each[0].item() for each in results] == [2.0, 4.0]
