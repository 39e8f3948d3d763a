"""te-first-microbatch-flag-missing: weights are quantized once a step, and a call does not say whether it is the first."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te
from torch import nn
from transformer_engine.common.recipe import DelayedScaling


def _graphed(recipe: DelayedScaling) -> nn.Module:
    sample = (torch.randn(32, 64, device="cuda", requires_grad=True),)
    layer = te.Linear(64, 64, bias=False)
    return te.make_graphed_callables(layer, sample, enabled=True, recipe=recipe, cache_quantized_params=True)


def fails() -> None:
    """The call of the eager loop."""
    recipe = DelayedScaling()
    layer = _graphed(recipe)
    with te.autocast(enabled=True, recipe=recipe):
        layer(torch.randn(32, 64, device="cuda", requires_grad=True))


def works() -> None:
    """True on the first microbatch after an update of the weights."""
    recipe = DelayedScaling()
    layer = _graphed(recipe)
    for step in range(2):
        for microbatch in range(2):
            x = torch.randn(32, 64, device="cuda", requires_grad=True)
            with te.autocast(enabled=True, recipe=recipe):
                y = layer(x, is_first_microbatch=microbatch == 0)
            assert (y - x @ layer.weight.T).norm() < 0.1 * y.norm(), (step, microbatch)
            y.sum().backward()
        with torch.no_grad():
            layer.weight.neg_()
