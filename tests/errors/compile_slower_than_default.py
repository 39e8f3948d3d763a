"""compile-slower-than-default: a weight with a new address in each step, so each step records."""

import torch
from torch import nn
from torch._dynamo.utils import counters


@torch.no_grad()
def fails() -> None:
    """Every swap of .data costs a recording instead of a replay."""
    layer = nn.Linear(64, 64, device="cuda")
    fast = torch.compile(layer, mode="reduce-overhead")
    x = torch.randn(8, 64, device="cuda")
    for _ in range(4):
        fast(x)
    before = counters["inductor"]["cudagraph_recorded_non_static_inputs"]
    old = []
    for _ in range(5):
        old.append(layer.weight.data)
        layer.weight.data = old[-1] * 0.5
        fast(x)
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] >= before + 5


@torch.no_grad()
def works() -> None:
    """In-place updates are replayed."""
    layer = nn.Linear(64, 64, device="cuda")
    fast = torch.compile(layer, mode="reduce-overhead")
    x = torch.randn(8, 64, device="cuda")
    for _ in range(4):
        fast(x)
    before = counters["inductor"]["cudagraph_recorded_non_static_inputs"]
    for _ in range(5):
        layer.weight.mul_(0.5)
        x = torch.randn(8, 64, device="cuda")
        torch.testing.assert_close(fast(x), layer(x), rtol=1e-3, atol=1e-3)
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] == before
