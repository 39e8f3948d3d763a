"""adafactor-keyerror-capturable: Adafactor's step in a capture."""

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
    """It asks for a flag that it does not have."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    opt = torch.optim.Adafactor(model.parameters(), lr=1e-2)
    _warm_up(model, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).square().mean().backward()
        opt.step()


def works() -> None:
    """Forward and backward are captured, the step is eager."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    opt = torch.optim.Adafactor(model.parameters(), lr=1e-2)
    _warm_up(model, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).square().mean().backward()
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        (want,) = torch.autograd.grad(model(x).square().mean(), model.weight)
        before = model.weight.detach().clone()
        graph.replay()
        torch.testing.assert_close(model.weight.grad, want)
        opt.step()
        assert not torch.equal(model.weight, before)
