"""capture-end-before-begin: the end of a capture that never began."""

import torch


def fails() -> None:
    """The branch with `capture_begin()` was not taken, the one with `capture_end()` was."""
    x = torch.ones(8, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        g = torch.cuda.CUDAGraph()
        x * 2
        g.capture_end()


def works() -> None:
    """Begin and end stand together."""
    x = torch.ones(8, device="cuda")
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        g.capture_begin()
        try:
            y = x * 2
        finally:
            g.capture_end()
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
