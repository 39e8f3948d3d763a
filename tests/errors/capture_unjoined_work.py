"""capture-unjoined-work: a forked stream that never comes back."""

import torch


def fails() -> None:
    """The side stream is forked and not joined."""
    x = torch.ones(16, device="cuda")
    side = torch.cuda.Stream()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.mul_(2)


def works() -> None:
    """The capture stream waits for the side stream before the region ends."""
    x = torch.ones(16, device="cuda")
    side = torch.cuda.Stream()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            branch = x * 2
        straight = x + 1
        main.wait_stream(side)
        out = branch + straight
    for value in (1.0, 6.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 3 + 1)
