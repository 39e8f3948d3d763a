"""capture-cpu-gpu-copy: a constant is uploaded from ordinary host memory in the region."""

import torch


def fails() -> None:
    """torch.tensor(..., device="cuda") builds on the CPU and copies."""
    x = torch.ones(4, 3, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x.mul_(torch.tensor([1.0, 2.0, 3.0], device="cuda"))


def works() -> None:
    """The constant is made once, before the capture."""
    x = torch.ones(4, 3, device="cuda")
    weights = torch.tensor([1.0, 2.0, 3.0], device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * weights
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * weights)
