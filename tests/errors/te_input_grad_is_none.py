"""te-input-grad-is-none: a sample wants a gradient, and no output depends on it."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te
from torch import nn


class Block(nn.Module):
    """A layer that takes positions and does not use them here."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = te.Linear(64, 64, bias=False)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 - as the caller passes it
        """Return the layer's output."""
        return self.linear(x)


def fails() -> None:
    """Both samples were made by the same function."""
    sample = tuple(torch.randn(32, 64, device="cuda", requires_grad=True) for _ in range(2))
    te.make_graphed_callables(Block(), sample)


def works() -> None:
    """Only the hidden states want one."""
    positions = torch.randn(32, 64, device="cuda")
    block = te.make_graphed_callables(Block(), (torch.randn(32, 64, device="cuda", requires_grad=True), positions))
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        y = block(x, positions)
        torch.testing.assert_close(y, x @ block.linear.weight.T, rtol=0.02, atol=0.02)
        y.sum().backward()
