"""capture-synchronize-call: the region waits for its own stream."""

import torch


def fails() -> None:
    """A timing helper synchronises the current stream."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x.mul_(2)
        torch.cuda.current_stream().synchronize()


def works() -> None:
    """The wait stands after the replay."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * 2
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.current_stream().synchronize()
        assert torch.equal(out, x * 2)
