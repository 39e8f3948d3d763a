"""capturable-state-on-cpu: the flag is set by hand after the first step."""

import torch
from torch import nn


def _model_with_grads() -> nn.Module:
    model = nn.Linear(64, 64).cuda()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model


def fails() -> None:
    """The step counters were created on the CPU."""
    opt = torch.optim.Adam(_model_with_grads().parameters(), lr=1e-3)
    opt.step()
    for group in opt.param_groups:
        group["capturable"] = True
    opt.step()


def works() -> None:
    """The counters move with the flag."""
    model = _model_with_grads()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    opt.step()
    for group in opt.param_groups:
        group["capturable"] = True
        for parameter in group["params"]:
            state = opt.state[parameter]
            state["step"] = state["step"].to(parameter.device, torch.float32)
    opt.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()
    for number in (3, 4):
        model.weight.grad.normal_()
        graph.replay()
        assert float(opt.state[model.weight]["step"]) == number
