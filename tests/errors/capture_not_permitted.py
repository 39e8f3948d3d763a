"""capture-not-permitted: a number is read back from the GPU while the capture is open."""

import torch


def fails() -> None:
    """The scale is fetched with .item(), which waits for a GPU that runs nothing."""
    x = torch.randn(1024, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        scale = x.abs().max().item()
        x.div_(scale)


def works() -> None:
    """The scale stays on the device."""
    x = torch.empty(1024, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x / x.abs().max()
    for seed in (1, 2):
        torch.manual_seed(seed)
        x.copy_(torch.randn(1024, device="cuda"))
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x / x.abs().max())
