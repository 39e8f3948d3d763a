"""capture-on-default-stream: the capture is asked to run on the stream that is current anyway."""

import torch


def fails() -> None:
    """`current_stream()` outside any stream context is the default stream."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, stream=torch.cuda.current_stream()):
        x * 2


def works() -> None:
    """A side stream captures; the replay may run on the default stream."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, stream=torch.cuda.Stream()):
        y = x * 2
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
