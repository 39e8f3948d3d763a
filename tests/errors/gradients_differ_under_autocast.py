"""gradients-differ-under-autocast: the captured backward runs under the autocast block of the graphing."""

import torch
from torch import nn


class _Project(torch.autograd.Function):
    """A matmul whose backward means to compute in the gradient's own precision."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Save both factors."""
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Multiply in float32."""
        x, weight = ctx.saved_tensors
        return grad.float() @ weight.t(), x.t() @ grad.float()


class _Layer(nn.Module):
    """Its autocast block is its own, or somebody else's."""

    def __init__(self, *, autocast: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(64, 64, device="cuda"))
        self.autocast = autocast

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Project under autocast, if asked."""
        with torch.autocast("cuda", torch.bfloat16, enabled=self.autocast or torch.is_autocast_enabled(), cache_enabled=False):
            return _Project.apply(x, self.weight)


def _error(graphed: nn.Module, eager: nn.Module) -> float:
    worst = 0.0
    for _ in range(2):
        x, factor = torch.randn(32, 64, device="cuda"), torch.randn(32, 64, device="cuda")
        grads = []
        for module in (graphed, eager):
            with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
                out = module(x)
            (grad,) = torch.autograd.grad((out.float() * factor).sum(), module.weight)
            grads.append(grad.clone())
        worst = max(worst, float((grads[0] - grads[1]).abs().max() / grads[1].abs().max()))
    return worst


def fails() -> None:
    """Graphed inside autocast: the backward's matmuls are in bf16, in eager they are in float32."""
    eager = _Layer(autocast=False)
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        graphed = torch.cuda.make_graphed_callables(_Layer(autocast=False), (torch.randn(32, 64, device="cuda"),))
    assert _error(graphed, eager) > 1e-4


def works() -> None:
    """Autocast inside forward, graphing outside: both backwards are in float32."""
    eager = _Layer(autocast=True)
    graphed = torch.cuda.make_graphed_callables(_Layer(autocast=True), (torch.randn(32, 64, device="cuda"),))
    assert _error(graphed, eager) < 1e-5
