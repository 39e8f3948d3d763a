"""compile-skip-mutated-inputs: the compiled function adds to its own argument."""

import torch
from torch._dynamo.utils import counters


def step(total: torch.Tensor) -> torch.Tensor:
    total.add_(1)
    return total * 2


def fails() -> None:
    """The argument is an ordinary tensor, which a recording would copy."""
    fast = torch.compile(step, mode="reduce-overhead")
    for _ in range(3):
        fast(torch.zeros(64, device="cuda"))


def works() -> None:
    """The argument is marked static, so the recording writes to the tensor itself."""
    total = torch.zeros(64, device="cuda")
    torch._dynamo.mark_static_address(total)
    fast = torch.compile(step, mode="reduce-overhead")
    for value in range(6):
        total.fill_(value)
        out = fast(total)
        assert out[0].item() == 2 * (value + 1)
        assert total[0].item() == value + 1
    assert counters["inductor"]["cudagraph_skips"] == 0
