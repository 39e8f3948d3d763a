"""reuse-setting-with-mem-pool: `graph_capture_record_stream_reuse` and `use_mem_pool` inside one capture."""

import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "graph_capture_record_stream_reuse:True"

import torch


def fails() -> None:
    """The first allocation of the capture goes to the MemPool, whose end is taken for the end of the capture."""
    x = torch.ones(8, device="cuda")
    pool = torch.cuda.MemPool()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x.add_(1)
        with torch.cuda.use_mem_pool(pool):
            x * 2


def works() -> None:
    """The buffer of the MemPool is made before the capture."""
    x = torch.ones(8, device="cuda")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        y = torch.empty_like(x)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.mul(x, 2, out=y)
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
