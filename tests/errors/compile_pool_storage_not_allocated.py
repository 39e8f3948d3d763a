"""compile-pool-storage-not-allocated: the caching allocator is off (torch before 2.13)."""

import torch


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """Outputs are allocated past the pool that the trees look into."""
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
