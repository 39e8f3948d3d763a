"""branch-or-attribute-stays-stale: `eval()` after the capture does not reach the captured dropout."""

import torch
from torch import nn


def _record(model: nn.Module, x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = model(x)
    return graph, out


def fails() -> None:
    """The branch `if self.training` was taken once, at capture."""
    model = nn.Sequential(nn.Dropout(0.5), nn.ReLU())
    x = torch.ones(4096, device="cuda")
    graph, out = _record(model, x)
    model.eval()
    graph.replay()
    assert torch.equal(model(x), x)
    assert not torch.equal(out, x)


def works() -> None:
    """A graph for each mode, chosen by the flag at replay."""
    model = nn.Sequential(nn.Dropout(0.5), nn.ReLU())
    x = torch.ones(4096, device="cuda")
    graphs = {mode: _record(model.train(mode), x) for mode in (True, False)}
    for value in (1.0, 2.0):
        x.fill_(value)
        for mode in (True, False):
            model.train(mode)
            graph, out = graphs[model.training]
            graph.replay()
            assert torch.equal(out, x) is not mode
