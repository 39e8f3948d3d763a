"""compile-recompile-limit: more static sizes than dynamo compiles variants."""

import torch
from torch._dynamo.utils import counters


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """Twelve sizes, none of them symbolic; from the ninth on the calls run eagerly."""
    fast = torch.compile(double, backend="cudagraphs", dynamic=False)
    for size in range(2, 14):
        fast(torch.ones(size, device="cuda"))


def works() -> None:
    """All padded to one size: one variant."""
    fast = torch.compile(double, backend="cudagraphs", dynamic=False)
    for size in range(2, 14):
        x = torch.full((size,), float(size), device="cuda")
        out = fast(torch.nn.functional.pad(x, (0, 16 - size)))[:size]
        assert torch.equal(out, x * 2)
    assert counters["stats"]["unique_graphs"] == 1
