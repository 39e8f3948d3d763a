"""graph-already-owns-capture: one CUDAGraph object is captured a second time."""

import torch


def fails() -> None:
    """The training loop enters the capture in every step with the same object."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    for _ in range(2):
        with torch.cuda.graph(g):
            x * 2


def works() -> None:
    """Captured once, replayed often; `reset()` before the object captures something else."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x * 2
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
    torch.cuda.synchronize()
    del y
    g.reset()
    with torch.cuda.graph(g):
        z = x + 1
    for value in (1.0, 4.0):
        x.fill_(value)
        g.replay()
        assert z.eq(value + 1).all()
