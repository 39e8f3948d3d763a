"""te-fp8-state-for-more-modules: the first call removes a sub-layer, and that call is the warm-up of the capture."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te
from torch import nn
from transformer_engine.common.recipe import DelayedScaling


class Merging(nn.Module):
    """A layer that merges its adapter into the weight when it is first used."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = te.Linear(64, 64, bias=False)
        self.adapter = te.Linear(64, 64, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the merged layer."""
        if hasattr(self, "adapter"):
            with torch.no_grad():
                self.linear.weight.add_(self.adapter.weight)
            del self.adapter
        return self.linear(x)


def _graph(block: Merging, recipe: DelayedScaling) -> nn.Module:
    sample = (torch.randn(32, 64, device="cuda", requires_grad=True),)
    return te.make_graphed_callables(block, sample, enabled=True, recipe=recipe)


def fails() -> None:
    """Nothing ran before."""
    _graph(Merging(), DelayedScaling())


def works() -> None:
    """One eager call comes first."""
    recipe = DelayedScaling()
    block = Merging()
    with te.autocast(enabled=True, recipe=recipe):
        block(torch.randn(32, 64, device="cuda", requires_grad=True)).sum().backward()
    block.zero_grad()
    _graph(block, recipe)
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        with te.autocast(enabled=True, recipe=recipe):
            y = block(x)
        assert (y - x @ block.linear.weight.T).norm() < 0.1 * y.norm()
