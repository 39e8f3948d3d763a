"""reentrant-checkpoint-in-graphed-callable: checkpoint(use_reentrant=True) under make_graphed_callables."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def fails() -> None:
    """Graphing differentiates with autograd.grad, which the reentrant variant refuses."""
    layer = nn.Linear(64, 64).cuda()

    def block(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(layer, x, use_reentrant=True)

    torch.cuda.make_graphed_callables(block, (torch.randn(32, 64, device="cuda", requires_grad=True),))


def works() -> None:
    """The other variant can be graphed."""
    layer = nn.Linear(64, 64).cuda()

    def block(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(layer, x, use_reentrant=False, preserve_rng_state=False)

    sample = torch.randn(32, 64, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(block, (sample,))
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        (got,) = torch.autograd.grad(graphed(x).square().mean(), x)
        (want,) = torch.autograd.grad(layer(x).square().mean(), x)
        torch.testing.assert_close(got, want)
