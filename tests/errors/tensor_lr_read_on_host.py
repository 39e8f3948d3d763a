"""tensor-lr-read-on-host: SGD passes a CUDA learning rate as a Python number."""

import torch
from torch import nn


def _model_with_grads() -> nn.Module:
    model = nn.Linear(64, 64).cuda()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model


def fails() -> None:
    """The default implementation reads the tensor while capturing."""
    opt = torch.optim.SGD(_model_with_grads().parameters(), lr=torch.tensor(0.1, device="cuda"))
    opt.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()


def works() -> None:
    """The fused kernel reads it on the GPU."""
    model = _model_with_grads()
    rate = torch.tensor(0.1, device="cuda")
    opt = torch.optim.SGD(model.parameters(), lr=rate, fused=True)
    opt.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()
    for value in (0.1, 0.5, 0.0):
        rate.fill_(value)
        want = model.weight.detach() - value * model.weight.grad
        graph.replay()
        torch.testing.assert_close(model.weight.detach(), want)
