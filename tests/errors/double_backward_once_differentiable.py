"""double-backward-once-differentiable: a gradient penalty across a graphed callable."""

import torch
from torch import nn


def fails() -> None:
    """The backward of a graphed module cannot be differentiated again."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh()).cuda()
    x = torch.randn(32, 64, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    (grad,) = torch.autograd.grad(graphed(x).square().sum(), x, create_graph=True)
    grad.square().sum().backward()


def works() -> None:
    """The whole step, both backwards included, is one graph."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh()).cuda()
    x = torch.randn(32, 64, device="cuda", requires_grad=True)

    def penalty() -> torch.Tensor:
        (grad,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), model[0].weight)[0]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            penalty()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = penalty()
    for _ in range(2):
        with torch.no_grad():
            x.copy_(torch.randn_like(x))
        graph.replay()
        torch.testing.assert_close(out, penalty(), rtol=1e-3, atol=1e-3)
