"""optimizer-state-restarts: the first step of the optimizer is the captured one."""

import torch
from torch import nn


def _model_with_grads() -> nn.Module:
    model = nn.Linear(64, 64).cuda()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model


def _steps_after_three_replays(*, warm: bool) -> float:
    model = _model_with_grads()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    if warm:
        opt.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()
    for _ in range(3):
        model.weight.grad.normal_()
        graph.replay()
    return float(opt.state[model.weight]["step"])


def fails() -> None:
    """Each replay creates the state again."""
    assert _steps_after_three_replays(warm=False) == 1


def works() -> None:
    """The state exists before the capture."""
    assert _steps_after_three_replays(warm=True) == 4
