"""compile-skip-dynamic-shapes: symbolic sizes under cudagraph_skip_dynamic_graphs."""

import torch
from torch._dynamo.utils import counters

NO_DYNAMIC = {"triton.cudagraphs": True, "triton.cudagraph_skip_dynamic_graphs": True, "graph_partition": False}


def wave(t: torch.Tensor) -> torch.Tensor:
    return t.sin() + 1


def fails() -> None:
    """Compiled with a symbolic size, so no graph is recorded."""
    fast = torch.compile(wave, dynamic=True, options=NO_DYNAMIC)
    for size in (16, 24, 32):
        fast(torch.ones(size, device="cuda"))


def works() -> None:
    """One size, compiled as static."""
    fast = torch.compile(wave, dynamic=False, options=NO_DYNAMIC)
    for value in range(6):
        x = torch.full((32,), float(value), device="cuda")
        torch.testing.assert_close(fast(x), x.sin() + 1)
    assert counters["inductor"]["cudagraph_skips"] == 0
