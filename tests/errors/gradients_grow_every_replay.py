"""gradients-grow-every-replay: gradients of the warm-up are still there when the backward is captured."""

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
    """The graph adds to .grad."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")  # a name, so that it outlives the capture
    graph = _capture(model, x, clear=False)
    graph.replay()
    first = model.weight.grad.clone()
    graph.replay()
    torch.testing.assert_close(model.weight.grad, 2 * first)


def works() -> None:
    """Cleared to None before the capture, .grad is written anew by each replay."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    graph = _capture(model, x, clear=True)
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        graph.replay()
        (want,) = torch.autograd.grad(model(x).square().mean(), model.weight)
        torch.testing.assert_close(model.weight.grad, want)
