"""weights-stop-after-zero-grad: zero_grad drops the tensors into which the graph writes."""

import torch
from torch import nn


def _capture(model: nn.Module, x: torch.Tensor, *, clear: bool) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(stream)
    model.zero_grad(set_to_none=clear)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).square().mean().backward()
    return graph


def fails() -> None:
    """After zero_grad the eager step finds no gradient."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    graph = _capture(model, x, clear=True)
    before = model.weight.detach().clone()
    for _ in range(3):
        opt.zero_grad()
        graph.replay()
        opt.step()
    assert torch.equal(model.weight, before)


def works() -> None:
    """No zero_grad between replays: backward writes."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    graph = _capture(model, x, clear=True)
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        (grad,) = torch.autograd.grad(model(x).square().mean(), model.weight)
        want = model.weight.detach() - 0.1 * grad
        graph.replay()
        opt.step()
        torch.testing.assert_close(model.weight.detach(), want)
