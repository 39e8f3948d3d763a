"""te-gradients-wrong-over-microbatches: a second forward overwrites what the first one saved for its backward."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te
from torch import nn

ROUNDING = 0.01


def _graphed() -> nn.Module:
    layer = te.Linear(64, 64, bias=False)
    return te.make_graphed_callables(layer, (torch.randn(32, 64, device="cuda", requires_grad=True),))


def _error(layer: nn.Module, inputs: list[torch.Tensor]) -> float:
    want = sum(torch.ones(64, 32, device="cuda") @ x for x in inputs)
    return float((layer.weight.grad - want).norm() / want.norm())


def fails() -> None:
    """Forward, forward, backward, backward through one graph."""
    layer = _graphed()
    layer.zero_grad()
    inputs = [torch.randn(32, 64, device="cuda") + number for number in range(2)]
    for loss in [layer(x.requires_grad_()).sum() for x in inputs]:
        loss.backward()
    assert _error(layer, inputs) > 10 * ROUNDING


def works() -> None:
    """Each backward before the next forward."""
    layer = _graphed()
    layer.zero_grad()
    inputs = [torch.randn(32, 64, device="cuda") + number for number in range(2)]
    for x in inputs:
        layer(x.requires_grad_()).sum().backward()
    assert _error(layer, inputs) < ROUNDING
