"""capture-cudnn-benchmark-prohibited: the search for the fastest convolution would run inside the region."""

import os

import torch


def fails() -> None:
    """A new image size with benchmark mode, on the v7 code path."""
    os.environ["TORCH_CUDNN_V8_API_DISABLED"] = "1"
    torch.backends.cudnn.benchmark = True
    conv = torch.nn.Conv2d(3, 8, 3).cuda()
    conv(torch.randn(2, 3, 32, 32, device="cuda"))
    x = torch.randn(2, 3, 48, 48, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(g):
        conv(x)


def works() -> None:
    """The size that is captured ran before."""
    torch.backends.cudnn.benchmark = True
    conv = torch.nn.Conv2d(3, 8, 3).cuda()
    x = torch.randn(2, 3, 48, 48, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            conv(x)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            out = conv(x)
        for seed in (1, 2):
            torch.manual_seed(seed)
            x.copy_(torch.randn(2, 3, 48, 48, device="cuda"))
            g.replay()
            torch.cuda.synchronize()
            assert torch.allclose(out, conv(x), rtol=1e-2, atol=1e-2)
