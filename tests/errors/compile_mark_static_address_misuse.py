"""compile-mark-static-address-misuse: a list of caches is marked instead of its tensors."""

import torch
from torch._dynamo.utils import counters


def write(keys: torch.Tensor, values: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    keys.add_(new)
    values.sub_(new)
    return keys + values


def fails() -> None:
    """The function takes one tensor."""
    caches = [torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")]
    torch._dynamo.mark_static_address(caches)


def works() -> None:
    """Each tensor is marked, before the first call."""
    caches = [torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")]
    for cache in caches:
        torch._dynamo.mark_static_address(cache)
    fast = torch.compile(write, mode="reduce-overhead")
    total = 0
    for value in range(6):
        out = fast(*caches, torch.full((64,), float(value), device="cuda"))
        total += value
        assert out[0].item() == 0
        assert caches[0][0].item() == total
        assert caches[1][0].item() == -total
    assert counters["inductor"]["cudagraph_skips"] == 0
