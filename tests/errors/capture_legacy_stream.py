"""capture-legacy-stream: stream 0 is told to wait for captured work."""

import torch


def fails() -> None:
    """The default stream waits for the capture stream inside the region."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x.mul_(2)
        torch.cuda.default_stream().wait_stream(torch.cuda.current_stream())


def works() -> None:
    """The graph is replayed on the default stream, which needs no wait."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * 2
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2)
