"""capture-without-caching-allocator: every torch allocation is a bare cudaMalloc."""

import os

import torch


def fails() -> None:
    """The debugging switch is on: the first new tensor in the region breaks the capture."""
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    refused = ""
    try:
        with torch.cuda.graph(g):
            x * 2
    except RuntimeError as error:
        refused = f"{error.__context__} {error}"
    assert "during capture" in refused or "stream is capturing" in refused


def works() -> None:
    """With the caching allocator the tensor comes from the graph's pool."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * 2
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2)
