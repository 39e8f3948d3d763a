"""allocator-feature-missing: a pool feature that the chosen allocator backend does not have."""

import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"

import torch


def fails() -> None:
    """The cudaMallocAsync backend has no MemPool to capture into."""
    x = torch.ones(8, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph(), pool=torch.cuda.MemPool().id):
        x * 2


def works() -> None:
    """A plain capture needs none."""
    x = torch.ones(8, device="cuda")
    y = torch.empty_like(x)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.mul(x, 2, out=y)
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
