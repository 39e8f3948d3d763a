"""compile-skip-caching-allocator: compiled while the caching allocator is off."""

# needs: torch>=2.13 (older releases do not say it)
import torch
from torch._dynamo.utils import counters


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """The allocator was switched off for debugging."""
    torch.cuda.init()  # the switch has no effect before
    torch.cuda.caching_allocator_enable(False)
    fast = torch.compile(double, mode="reduce-overhead")
    for _ in range(3):
        fast(torch.ones(64, device="cuda"))


def works() -> None:
    """The allocator is on, as by default."""
    fast = torch.compile(double, mode="reduce-overhead")
    for value in range(6):
        x = torch.full((64,), float(value), device="cuda")
        torch.testing.assert_close(fast(x), x * 2)
    assert counters["inductor"]["cudagraph_skips"] == 0
