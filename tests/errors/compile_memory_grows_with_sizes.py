"""compile-memory-grows-with-sizes: a recording is kept for every size ever seen."""

from itertools import pairwise

import torch
from torch._dynamo.utils import counters


def shift(t: torch.Tensor) -> torch.Tensor:
    return t + 1


def fails() -> None:
    """Six sizes: six recordings that stay."""
    fast = torch.compile(shift, mode="reduce-overhead")
    recorded = []
    for size in (8, 16, 24, 32, 40, 48):
        for _ in range(3):
            x = torch.ones(size, device="cuda")
            torch._dynamo.mark_dynamic(x, 0)
            fast(x)
        recorded.append(counters["inductor"]["cudagraph_recorded_non_static_inputs"])
    assert all(later > earlier for earlier, later in pairwise(recorded))


def works() -> None:
    """One bucket: one recording."""
    fast = torch.compile(shift, mode="reduce-overhead")
    for size in (8, 16, 24, 32, 40, 48):
        for value in range(3):
            x = torch.full((size,), float(value), device="cuda")
            out = fast(torch.nn.functional.pad(x, (0, 48 - size)))[:size]
            torch.testing.assert_close(out, x + 1)
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] == 1
