"""pool-already-recording: a second capture into a pool whose first capture failed and was never closed."""

import contextlib

import torch


def fails() -> None:
    """Up to torch 2.12 a failed capture leaves its pool open, so the retry is refused."""
    x = torch.ones(8, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    with contextlib.suppress(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph(), pool=pool):
        x.sum().item()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, pool=pool):
        x * 2


def works() -> None:
    """The retry takes a new handle and the stream that was current before."""
    x = torch.ones(8, device="cuda")
    before = torch.cuda.current_stream()
    with contextlib.suppress(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph(), pool=torch.cuda.graph_pool_handle()):
        x.sum().item()
    torch.cuda.set_stream(before)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, pool=torch.cuda.graph_pool_handle()):
        y = x * 2
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
