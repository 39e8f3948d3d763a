"""capture-cublas-not-initialized: the first matrix product of the thread is inside the region."""

import torch


def fails() -> None:
    """No warm-up."""
    a = torch.randn(64, 64, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        a @ a.T


def works() -> None:
    """One product before the capture makes the handle."""
    a = torch.randn(64, 64, device="cuda")
    a @ a.T
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = a @ a.T
    for seed in (1, 2):
        torch.manual_seed(seed)
        a.copy_(torch.randn(64, 64, device="cuda"))
        g.replay()
        torch.cuda.synchronize()
        assert torch.allclose(out, a @ a.T, rtol=1e-4, atol=1e-3)
