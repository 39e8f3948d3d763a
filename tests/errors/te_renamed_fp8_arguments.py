"""te-renamed-fp8-arguments: the old name of an argument beside the new one."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te
from transformer_engine.common.recipe import DelayedScaling


def fails() -> None:
    """A wrapper fills in `enabled`, and the caller still says `fp8_enabled`."""
    sample = (torch.randn(32, 64, device="cuda", requires_grad=True),)
    te.make_graphed_callables(te.Linear(64, 64), sample, fp8_enabled=True, enabled=True, fp8_recipe=DelayedScaling())


def works() -> None:
    """The new names alone."""
    recipe = DelayedScaling()
    layer = te.Linear(64, 64, bias=False)
    graphed = te.make_graphed_callables(
        layer, (torch.randn(32, 64, device="cuda", requires_grad=True),), enabled=True, recipe=recipe
    )
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        with te.autocast(enabled=True, recipe=recipe):
            y = graphed(x)
        assert (y - x @ layer.weight.T).norm() < 0.1 * y.norm()
        y.sum().backward()
