"""te-callable-or-sample-type: a function is graphed, not a module."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te
from torch import nn


class Doubled(nn.Module):
    """The same work as a module."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return twice the layer's output."""
        return 2 * self.layer(x)


def fails() -> None:
    """The helper of torch takes functions."""
    layer = te.Linear(64, 64)

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return 2 * layer(x)

    te.make_graphed_callables(doubled, (torch.randn(32, 64, device="cuda", requires_grad=True),))


def works() -> None:
    """A module around it."""
    layer = te.Linear(64, 64, bias=False)
    graphed = te.make_graphed_callables(Doubled(layer), (torch.randn(32, 64, device="cuda", requires_grad=True),))
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        torch.testing.assert_close(graphed(x), 2 * x @ layer.weight.T, rtol=0.02, atol=0.02)
