"""te-loss-differs-with-fp8: the quantized weights of the first step serve all later ones."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te
from transformer_engine.common.recipe import DelayedScaling


def _error_after_update(*, each_step: bool) -> float:
    """Return how far the second step's output is from that of its weights, relative to it."""
    recipe = DelayedScaling()
    sample = (torch.randn(32, 64, device="cuda", requires_grad=True),)
    layer = te.Linear(64, 64, bias=False)
    te.make_graphed_callables(layer, sample, enabled=True, recipe=recipe, cache_quantized_params=True)
    error = 0.0
    for step in range(2):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        with te.autocast(enabled=True, recipe=recipe):
            y = layer(x, is_first_microbatch=each_step or step == 0)
        y.sum().backward()
        want = x @ layer.weight.T
        error = float((y - want).norm() / want.norm())
        with torch.no_grad():
            layer.weight.neg_()  # stands for the optimizer's step
    return error


def fails() -> None:
    """True only in the first step of the run."""
    assert _error_after_update(each_step=False) > 1


def works() -> None:
    """True in the first microbatch of each step."""
    assert _error_after_update(each_step=True) < 0.1
