"""submodule-hook-never-runs: a hook on an inner layer of a graphed module."""

import torch
from torch import nn


def fails() -> None:
    """It fires while warming up and capturing, and not in the calls."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).cuda()
    calls: list[int] = []
    model[0].register_forward_hook(lambda *_: calls.append(1))
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    before = len(calls)
    for _ in range(3):
        graphed(torch.randn(32, 64, device="cuda"))
    assert before > 0
    assert len(calls) == before


def works() -> None:
    """The hook only copies into a static buffer: that copy is part of the graph."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).cuda()
    weight, bias = model[0].weight.detach().clone(), model[0].bias.detach().clone()
    inner = torch.empty(32, 64, device="cuda")

    def keep(_module: nn.Module, _args: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        inner.copy_(out.detach())

    model[0].register_forward_hook(keep)
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda")
        graphed(x)
        torch.testing.assert_close(inner, nn.functional.linear(x, weight, bias))
