"""replay-inside-another-capture: the captured function replays a graph (torch <= 2.11)."""

import torch


def fails() -> None:
    """The inner replay wants to write seed and offset, which a capture forbids."""
    x = torch.randn(64, device="cuda")
    x.mul(2).add_(1)
    inner, outer = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(inner):
        y = x * 2
    with torch.cuda.graph(outer):
        x.add_(1)
        inner.replay()
        y.add_(1)


def works() -> None:
    """The outer graph captures the plain function."""
    x = torch.randn(64, device="cuda")

    def double(v: torch.Tensor) -> torch.Tensor:
        return v * 2

    double(x).add_(1)
    outer = torch.cuda.CUDAGraph()
    with torch.cuda.graph(outer):
        y = double(x).add_(1)
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        outer.replay()
        assert torch.equal(y, x * 2 + 1)
