"""anomaly-detection-in-capture: the NaN check of anomaly mode reads the GPU."""

import torch
from torch import nn


def _warm_up(model: nn.Module, x: torch.Tensor) -> None:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(stream)
    model.zero_grad(set_to_none=True)


def fails() -> None:
    """Anomaly mode is on while the backward is captured."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    _warm_up(model, x)
    graph = torch.cuda.CUDAGraph()
    with torch.autograd.detect_anomaly(), torch.cuda.graph(graph):
        model(x).square().mean().backward()


def works() -> None:
    """A flag on the device keeps watch instead."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    bad = torch.zeros((), dtype=torch.bool, device="cuda")
    _warm_up(model, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = model(x).square().mean()
        loss.backward()
        bad |= ~torch.isfinite(loss.detach())
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert not bad
    x.fill_(float("nan"))
    graph.replay()
    assert bad
