"""stale-default-stream-in-backward: a warm-up on the default stream whose loss is still alive."""

# needs: torch>=2.13
import torch
from torch import nn


def fails() -> None:
    """The nodes of the parameters live on with the loss and remember stream 0."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    loss = model(x).square().mean()
    loss.backward()
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).square().mean().backward()


def works() -> None:
    """Warm-up and capture share one side stream."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model.zero_grad(set_to_none=True)
            loss = model(x).square().mean()
            loss.backward()
    torch.cuda.current_stream().wait_stream(stream)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        loss = model(x).square().mean()
        loss.backward()
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        graph.replay()
        (want,) = torch.autograd.grad(model(x).square().mean(), model.weight)
        torch.testing.assert_close(model.weight.grad, want)
