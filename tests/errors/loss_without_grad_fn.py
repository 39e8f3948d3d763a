"""loss-without-grad-fn: eager backward on an output that was captured under no_grad."""

import torch
from torch import nn


def step_with_cuda_graph(graph: torch.cuda.CUDAGraph, loss: torch.Tensor) -> None:
    """Replays, then asks autograd for what no_grad did not record."""
    graph.replay()
    loss.backward()


def fails() -> None:
    """The captured loss has no history."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            loss = model(x).square().mean()
    step_with_cuda_graph(graph, loss)


def works() -> None:
    """A graphed callable is a node of the eager tape."""
    model = nn.Linear(64, 64).cuda()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda")
        graphed.zero_grad(set_to_none=True)
        out = graphed(x)
        out.square().mean().backward()
        want = (2 / out.numel()) * out.detach().T @ x
        torch.testing.assert_close(graphed.weight.grad, want)
