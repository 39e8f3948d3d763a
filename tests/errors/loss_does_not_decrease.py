"""loss-does-not-decrease: `zero_grad()` before each replay takes the gradients away from the optimizer."""

import torch
from torch import nn


def _record() -> tuple[torch.cuda.CUDAGraph, torch.optim.Optimizer, torch.Tensor, torch.Tensor]:
    """Forward and backward are captured, the optimizer steps eagerly after the replay."""
    torch.manual_seed(0)
    model = nn.Linear(16, 1).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(64, 16, device="cuda")
    y = x.sum(dim=1, keepdim=True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            opt.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
    torch.cuda.current_stream().wait_stream(stream)
    opt.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
    return graph, opt, x, loss


def fails() -> None:
    """The optimizer sees None everywhere and changes nothing."""
    graph, opt, _x, loss = _record()
    losses = []
    for _ in range(10):
        opt.zero_grad()
        graph.replay()
        opt.step()
        losses.append(loss.item())
    assert len(set(losses)) == 1


def works() -> None:
    """The captured backward overwrites the gradients, so nothing has to be zeroed."""
    graph, opt, x, loss = _record()
    losses = []
    for _ in range(10):
        graph.replay()
        opt.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    x.mul_(2)
    graph.replay()
    assert loss.item() != losses[-1]
