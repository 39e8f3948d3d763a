"""learning-rate-change-ignored: a float learning rate is a constant of the captured step."""

import torch
from torch import nn


def _model_with_grads() -> nn.Module:
    model = nn.Linear(64, 64).cuda()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model


def _moves(model: nn.Module, opt: torch.optim.Optimizer, sched: torch.optim.lr_scheduler.LRScheduler) -> list[float]:
    opt.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()
    moves = []
    for _ in range(2):
        before = model.weight.detach().clone()
        graph.replay()
        moves.append(float((model.weight.detach() - before).abs().max()))
        sched.step()
    return moves


def fails() -> None:
    """The scheduler sets lr to a thousandth, and the weights still move as before."""
    model = _model_with_grads()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2, capturable=True)
    first, second = _moves(model, opt, torch.optim.lr_scheduler.ExponentialLR(opt, 1e-3))
    assert float(opt.param_groups[0]["lr"]) < 1e-4
    assert second > 0.5 * first > 0


def works() -> None:
    """A tensor is read at each replay."""
    model = _model_with_grads()
    opt = torch.optim.Adam(model.parameters(), lr=torch.tensor(1e-2, device="cuda"), capturable=True)
    first, second = _moves(model, opt, torch.optim.lr_scheduler.ExponentialLR(opt, 1e-3))
    assert first > 0
    assert second < 0.1 * first
