"""optimizer-step-not-capturable: Adam with its counters on the CPU is captured."""

import torch
from torch import nn


def _model_with_grads() -> nn.Module:
    model = nn.Linear(64, 64).cuda()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model


def fails() -> None:
    """fused=True does not replace capturable=True."""
    opt = torch.optim.Adam(_model_with_grads().parameters(), lr=1e-3, fused=True)
    opt.step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()


def works() -> None:
    """The counter lives on the GPU and moves with each replay."""
    model = _model_with_grads()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    opt.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()
    for number, sign in enumerate((1.0, -1.0, -1.0, -1.0), start=2):
        model.weight.grad.fill_(sign)
        before = model.weight.detach().clone()
        graph.replay()
        assert float(opt.state[model.weight]["step"]) == number
        assert not torch.equal(model.weight, before)
