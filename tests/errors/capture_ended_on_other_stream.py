"""capture-ended-on-other-stream: code in the region switches the current stream and does not switch back."""

import torch


def _helper(x: torch.Tensor) -> torch.Tensor:
    """A library function that sets the default stream for its own reasons."""
    y = x * 2
    torch.cuda.set_stream(torch.cuda.default_stream())
    return y


def fails() -> None:
    """At the end of the block another stream is current than at its start."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        _helper(x)


def works() -> None:
    """The switch is a context manager, forked from the capture stream and joined again."""
    x = torch.ones(8, device="cuda")
    side = torch.cuda.Stream()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(side)
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
