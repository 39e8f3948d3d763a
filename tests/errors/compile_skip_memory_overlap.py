"""compile-skip-memory-overlap: a sliding-window view as the input (torch before 2.13)."""

import torch
from torch._dynamo.utils import counters

ONE_GRAPH = {"triton.cudagraphs": True, "graph_partition": False}


def fails() -> None:
    """The windows share their elements."""
    fast = torch.compile(lambda windows: windows.sum(1), options=ONE_GRAPH)
    for _ in range(3):
        fast(torch.arange(64.0, device="cuda").unfold(0, 4, 1))


def works() -> None:
    """The view is made inside, from the plain signal."""
    fast = torch.compile(lambda signal: signal.unfold(0, 4, 1).sum(1), options=ONE_GRAPH)
    for value in range(6):
        signal = torch.arange(64.0, device="cuda") + value
        torch.testing.assert_close(fast(signal), signal.unfold(0, 4, 1).sum(1))
    assert counters["inductor"]["cudagraph_skips"] == 0
