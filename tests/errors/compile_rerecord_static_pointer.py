"""compile-rerecord-static-pointer: a weight gets a new storage."""

import torch
from torch import nn
from torch._dynamo.utils import counters


@torch.no_grad()
def fails() -> None:
    """The weight is swapped by its .data."""
    torch._logging.set_logs(cudagraphs=True)
    torch._inductor.config.triton.cudagraph_unexpected_rerecord_limit = 0  # the reason also as a warning
    layer = nn.Linear(64, 64, device="cuda")
    fast = torch.compile(layer, mode="reduce-overhead")
    x = torch.randn(8, 64, device="cuda")
    for _ in range(4):
        fast(x)
    old = layer.weight.data
    layer.weight.data = old.clone()
    fast(x)


@torch.no_grad()
def works() -> None:
    """The weight is written in place: no new recording, and the new values are used."""
    layer = nn.Linear(64, 64, device="cuda")
    fast = torch.compile(layer, mode="reduce-overhead")
    for _ in range(4):
        fast(torch.randn(8, 64, device="cuda"))
    recorded = counters["inductor"]["cudagraph_recorded_non_static_inputs"]
    for _ in range(3):
        layer.weight.copy_(torch.randn(64, 64, device="cuda"))
        x = torch.randn(8, 64, device="cuda")
        torch.testing.assert_close(fast(x), layer(x), rtol=1e-3, atol=1e-3)
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] == recorded
