"""backward-in-capture-hits-legacy-stream: the captured backward waits on the default stream of the warm-up."""

import torch
from torch import nn


def fails() -> None:
    """The warm-up's loss keeps the parameters' nodes, which were made on the default stream."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    loss = model(x).square().mean()
    loss.backward()
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).square().mean().backward()


def works() -> None:
    """The warm-up runs on a side stream and its loss is gone before the capture."""
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
    del loss
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).square().mean().backward()
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        graph.replay()
        (want,) = torch.autograd.grad(model(x).square().mean(), model.weight)
        torch.testing.assert_close(model.weight.grad, want)
