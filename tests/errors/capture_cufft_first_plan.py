"""capture-cufft-first-plan: a Fourier transform of a new size is inside the region."""

import torch


def fails() -> None:
    """A prime length needs tables that the plan uploads."""
    x = torch.randn(4, 8191, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.fft.rfft(x)


def works() -> None:
    """The same size ran before: the plan comes from the cache."""
    x = torch.randn(4, 8191, device="cuda")
    torch.fft.rfft(x)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = torch.fft.rfft(x)
    for seed in (1, 2):
        torch.manual_seed(seed)
        x.copy_(torch.randn(4, 8191, device="cuda"))
        g.replay()
        torch.cuda.synchronize()
        assert torch.allclose(out, torch.fft.rfft(x), rtol=1e-3, atol=1e-3)
