"""capture-triton-autotune: a Triton kernel is tuned for a new key inside the region."""

import importlib

import torch

triton = importlib.import_module("triton")
tl = importlib.import_module("triton.language")


def double_kernel(x, out, n):  # type: ignore[no-untyped-def]
    """Doubles in blocks of 1024."""
    place = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(out + place, tl.load(x + place, mask=place < n) * 2, mask=place < n)


configs = [triton.Config({}, num_warps=2), triton.Config({}, num_warps=8)]
double = triton.autotune(configs=configs, key=["n"])(triton.jit(double_kernel))


def fails() -> None:
    """The size that is captured was never run."""
    x = torch.ones(4096, device="cuda")
    out = torch.empty_like(x)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        double[(4,)](x, out, x.numel())


def works() -> None:
    """The kernel runs once with this size first."""
    x = torch.ones(4096, device="cuda")
    out = torch.empty_like(x)
    double[(4,)](x, out, x.numel())
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        double[(4,)](x, out, x.numel())
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2)
