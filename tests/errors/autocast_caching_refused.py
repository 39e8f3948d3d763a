"""autocast-caching-refused: make_graphed_callables inside autocast with its cache on."""

import torch
from torch import nn


def fails() -> None:
    """The cache of weight casts is on by default."""
    model = nn.Linear(64, 64).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))


def works() -> None:
    """The cache is off where the module is graphed, and weights may change afterwards."""
    model = nn.Linear(64, 64).cuda()
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda")
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            out = graphed(x)
            want = nn.functional.linear(x, model.weight, model.bias)
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out, want)
        with torch.no_grad():
            model.weight.mul_(2)
