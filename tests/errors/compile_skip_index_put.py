"""compile-skip-index-put: values are written through a boolean mask."""

import torch
from torch._dynamo.utils import counters

ONE_GRAPH = {"triton.cudagraphs": True, "graph_partition": False}


def assign(x: torch.Tensor, mask: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[mask] = new
    return y


def fails() -> None:
    """The mask becomes a nonzero, which the host must wait for."""
    fast = torch.compile(assign, options=ONE_GRAPH)
    x = torch.zeros(64, device="cuda")
    mask = torch.arange(64, device="cuda") % 2 == 0
    for _ in range(3):
        fast(x, mask, torch.ones(32, device="cuda"))


def works() -> None:
    """A full-size right side and torch.where."""
    fast = torch.compile(lambda x, mask, new: torch.where(mask, new, x), options=ONE_GRAPH)
    mask = torch.arange(64, device="cuda") % 2 == 0
    for value in range(6):
        out = fast(torch.zeros(64, device="cuda"), mask, torch.full((64,), float(value), device="cuda"))
        assert out[0].item() == value
        assert out[1].item() == 0
    assert counters["inductor"]["cudagraph_skips"] == 0
