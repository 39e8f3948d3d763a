"""malloc-async-one-capture: two captures at once with the cudaMallocAsync backend."""

import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"

import torch


def fails() -> None:
    """The second capture begins before the first has ended."""
    x = torch.ones(8, device="cuda")
    y, z = torch.empty_like(x), torch.empty_like(x)
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        first.capture_begin(capture_error_mode="thread_local")
        torch.mul(x, 2, out=y)
    with torch.cuda.stream(torch.cuda.Stream()):
        second.capture_begin(capture_error_mode="thread_local")
        torch.mul(x, 3, out=z)


def works() -> None:
    """One after the other."""
    x = torch.ones(8, device="cuda")
    y, z = torch.empty_like(x), torch.empty_like(x)
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        torch.mul(x, 2, out=y)
    with torch.cuda.graph(second):
        torch.mul(x, 3, out=z)
    for value in (3.0, 5.0):
        x.fill_(value)
        first.replay()
        second.replay()
        assert y.eq(value * 2).all()
        assert z.eq(value * 3).all()
