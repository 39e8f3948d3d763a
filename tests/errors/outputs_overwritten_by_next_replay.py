"""outputs-overwritten-by-next-replay: predictions are collected without a copy."""

import torch


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
    static_x = torch.zeros(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = static_x * 10
    return graph, static_x, out


def fails() -> None:
    """`detach()` is no copy: the list holds one tensor three times."""
    graph, static_x, out = _record()
    predictions = []
    for step in range(3):
        static_x.fill_(step)
        graph.replay()
        predictions.append(out.detach())
    assert all(each.eq(20).all() for each in predictions)


def works() -> None:
    """`clone()` before the next replay."""
    graph, static_x, out = _record()
    predictions = []
    for step in range(3):
        static_x.fill_(step)
        graph.replay()
        predictions.append(out.clone())
    assert all(each.eq(10 * step).all() for step, each in enumerate(predictions))
