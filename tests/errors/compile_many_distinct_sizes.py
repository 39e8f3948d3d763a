"""compile-many-distinct-sizes: eleven batch sizes, eleven recordings."""

import torch
from torch._dynamo.utils import counters


def shift(t: torch.Tensor) -> torch.Tensor:
    return t + 1


def fails() -> None:
    """Each size gets a graph of its own; the ninth brings the warning."""
    fast = torch.compile(shift, mode="reduce-overhead")
    for size in range(8, 96, 8):
        x = torch.ones(size, device="cuda")
        torch._dynamo.mark_dynamic(x, 0)
        fast(x)


def works() -> None:
    """The same sizes padded to one of two buckets."""
    fast = torch.compile(shift, mode="reduce-overhead", dynamic=False)
    for _ in range(2):
        for size in range(8, 96, 8):
            x = torch.full((size,), float(size), device="cuda")
            bucket = 32 if size <= 32 else 96
            out = fast(torch.nn.functional.pad(x, (0, bucket - size)))[:size]
            torch.testing.assert_close(out, x + 1)
    assert counters["stats"]["unique_graphs"] == 2
