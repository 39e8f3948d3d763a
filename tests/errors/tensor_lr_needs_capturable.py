"""tensor-lr-needs-capturable: a tensor learning rate for foreach Adam without the flag."""

import torch
from torch import nn


def _model_with_grads() -> nn.Module:
    model = nn.Linear(64, 64).cuda()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model


def fails() -> None:
    """The foreach form needs a number, or capturable=True."""
    torch.optim.Adam(_model_with_grads().parameters(), lr=torch.tensor(1e-3, device="cuda"), foreach=True)


def works() -> None:
    """With the flag the graph reads the tensor at each replay."""
    model = _model_with_grads()
    rate = torch.tensor(1e-3, device="cuda")
    opt = torch.optim.Adam(model.parameters(), lr=rate, foreach=True, capturable=True)
    opt.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()
    for value in (1e-2, 1e-4):  # with constant gradients Adam moves by lr
        rate.fill_(value)
        before = model.weight.detach().clone()
        graph.replay()
        moved = float((model.weight.detach() - before).abs().mean())
        assert abs(moved - value) < 0.05 * value
