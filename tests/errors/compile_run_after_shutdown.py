"""compile-run-after-shutdown: torch.compiler.reset() between a compiled forward and its backward."""

import torch
from torch import nn


def fails() -> None:
    """The recorded backward belongs to a tree that was shut down."""
    layer = nn.Linear(64, 64, device="cuda")
    fast = torch.compile(layer, mode="reduce-overhead")
    for _ in range(4):
        layer.zero_grad(set_to_none=True)
        fast(torch.randn(8, 64, device="cuda")).sum().backward()
    layer.zero_grad(set_to_none=True)
    loss = fast(torch.randn(8, 64, device="cuda")).sum()
    torch.compiler.reset()
    loss.backward()


def works() -> None:
    """The backward is done before the reset; afterwards everything is compiled and recorded again."""
    layer = nn.Linear(64, 64, device="cuda")
    fast = torch.compile(layer, mode="reduce-overhead")
    for _ in range(2):
        for value in range(4):
            layer.zero_grad(set_to_none=True)
            x = torch.full((8, 64), float(value), device="cuda")
            fast(x).sum().backward()
            assert layer.weight.grad is not None
            torch.testing.assert_close(layer.weight.grad, x.sum(0).expand(64, 64), rtol=1e-3, atol=1e-3)
        layer.zero_grad(set_to_none=True)
        torch.compiler.reset()
