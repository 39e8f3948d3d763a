"""accumulategrad-stream-warning: the nodes of the parameters belong to another stream than this backward."""

import warnings

import torch
from torch import nn


def fails() -> None:
    """A loss made on a side stream is still alive when training goes on on the default stream."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        kept = model(x).square().mean()
    torch.cuda.synchronize()
    loss = model(x).square().mean()
    loss.backward()
    assert torch.isfinite(kept)


def works() -> None:
    """The old loss is deleted first, and no warning comes, in eager mode or in the capture."""
    warnings.filterwarnings("error", message="The AccumulateGrad node")
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        loss = model(x).square().mean()
        loss.backward()
    torch.cuda.current_stream().wait_stream(stream)
    del loss
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        model(x).square().mean().backward()
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        graph.replay()
        (want,) = torch.autograd.grad(model(x).square().mean(), model.weight)
        torch.testing.assert_close(model.weight.grad, want)
