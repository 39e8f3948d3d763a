"""capture-invalidated: the first error is swallowed, only its echo is left."""

import contextlib

import torch


def fails() -> None:
    """A helper that may fail is wrapped in a suppress: the capture is broken already."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * 2
        with contextlib.suppress(RuntimeError):
            out.sum().item()


def works() -> None:
    """The value is copied into a static buffer and read after the replay."""
    x = torch.ones(16, device="cuda")
    total = torch.zeros((), device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        total.copy_((x * 2).sum())
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        assert total.item() == 32 * value
