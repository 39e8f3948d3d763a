"""compile-graph-breaks: a host decision in the middle makes two graphs of one function."""

import torch
from torch._dynamo.utils import counters


def clip(t: torch.Tensor) -> torch.Tensor:
    norm = (t * 1.0).norm()
    if norm.item() > 1:
        t = t / norm
    return t + 0


def clip_on_device(t: torch.Tensor) -> torch.Tensor:
    norm = t.norm()
    return torch.where(norm > 1, t / norm, t)


def fails() -> None:
    """The .item() ends the first graph."""
    fast = torch.compile(clip, mode="reduce-overhead")
    for value in (1.0, 2.0, 3.0):
        fast(torch.full((64,), value, device="cuda"))
    assert counters["stats"]["unique_graphs"] >= 2


def works() -> None:
    """torch.where decides on the device: one graph, enforced by fullgraph."""
    fast = torch.compile(clip_on_device, mode="reduce-overhead", fullgraph=True)
    for value in (0.01, 1.0, 2.0, 0.02, 3.0, 4.0):
        x = torch.full((64,), value, device="cuda")
        torch.testing.assert_close(fast(x), x / max(float(x.norm()), 1.0))
    assert counters["stats"]["unique_graphs"] == 1
