"""compile-skip-control-flow: torch.cond on a value of the GPU."""

import torch
from torch._dynamo.utils import counters

ONE_GRAPH = {"triton.cudagraphs": True, "graph_partition": False}


def twice(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def less(t: torch.Tensor) -> torch.Tensor:
    return t - 1


def branch(t: torch.Tensor) -> torch.Tensor:
    return torch.cond(t.sum() > 0, twice, less, (t,))


def select(t: torch.Tensor) -> torch.Tensor:
    return torch.where(t.sum() > 0, twice(t), less(t))


def fails() -> None:
    """Inductor picks the branch on the host."""
    fast = torch.compile(branch, options=ONE_GRAPH)
    for _ in range(3):
        fast(torch.ones(64, device="cuda"))


def works() -> None:
    """Both branches are computed, the device selects."""
    fast = torch.compile(select, options=ONE_GRAPH)
    for value in (-2.0, -1.0, 1.0, 2.0, -3.0, 3.0):
        out = fast(torch.full((64,), value, device="cuda"))
        assert out[0].item() == (value * 2 if value > 0 else value - 1)
    assert counters["inductor"]["cudagraph_skips"] == 0
