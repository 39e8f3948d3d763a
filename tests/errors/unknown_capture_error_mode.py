"""unknown-capture-error-mode: a mode that does not exist."""

import torch


def fails() -> None:
    """The name has an underscore."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, capture_error_mode="threadlocal"):
        x * 2


def works() -> None:
    """One of `global`, `thread_local`, `relaxed`."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, capture_error_mode="thread_local"):
        y = x * 2
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
