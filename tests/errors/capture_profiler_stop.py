"""capture-profiler-stop: a profiler is started and stopped inside the region."""

import torch


def fails() -> None:
    """Leaving the profiler synchronises the device."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g), torch.profiler.profile():
        x.mul_(2)


def works() -> None:
    """The profiler runs around the replays."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * 2
    with torch.profiler.profile():
        for value in (1.0, 3.0):
            x.fill_(value)
            g.replay()
            torch.cuda.synchronize()
            assert torch.equal(out, x * 2)
