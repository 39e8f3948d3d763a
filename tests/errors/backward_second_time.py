"""backward-second-time: Python's backward after the replay of a graph that contains it."""

import torch
from torch import nn


def step_with_cuda_graph(graph: torch.cuda.CUDAGraph, captured_loss: torch.Tensor) -> None:
    graph.replay()
    captured_loss.backward()


def fails() -> None:
    """The tape of the loss was used up while capturing."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        model(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(stream)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = model(x).square().mean()
        loss.backward()
    step_with_cuda_graph(graph, loss)


def works() -> None:
    """The replay alone fills the gradients."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        model(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(stream)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).square().mean().backward()
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        graph.replay()
        (want,) = torch.autograd.grad(model(x).square().mean(), model.weight)
        torch.testing.assert_close(model.weight.grad, want)
