"""capture-cudnn-first-call: the first convolution is inside the region."""

import torch


def fails() -> None:
    """No warm-up: cuDNN makes its handle and its plan in the capture."""
    conv = torch.nn.Conv2d(3, 8, 3).cuda()
    x = torch.randn(2, 3, 32, 32, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(g):
        conv(x)


def works() -> None:
    """The same shape ran before."""
    conv = torch.nn.Conv2d(3, 8, 3).cuda()
    x = torch.randn(2, 3, 32, 32, device="cuda")
    with torch.no_grad():
        conv(x)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            out = conv(x)
        for seed in (1, 2):
            torch.manual_seed(seed)
            x.copy_(torch.randn(2, 3, 32, 32, device="cuda"))
            g.replay()
            torch.cuda.synchronize()
            assert torch.allclose(out, conv(x), rtol=1e-2, atol=1e-2)
