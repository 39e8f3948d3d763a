"""malloc-async-free-across-capture: tensors are freed on the other side of the capture boundary."""

import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"

import torch


def fails() -> None:
    """`x` from before is dropped inside the region, `y` from inside is dropped after it: two warnings."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x * 2
        del x
    g.replay()
    torch.cuda.synchronize()
    del y


def works() -> None:
    """Input and output are made before the capture and outlive the graph."""
    x = torch.ones(8, device="cuda")
    y = torch.empty_like(x)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.mul(x, 2, out=y)
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
    torch.cuda.synchronize()
    g.reset()
