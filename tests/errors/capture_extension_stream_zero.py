"""capture-extension-stream-zero: work on stream 0 runs once and is missing from the graph."""

import torch


def fails() -> None:
    """A launcher that always takes the default stream: no error, and the replay does not do that work."""
    x = torch.ones(16, device="cuda")
    out = torch.zeros(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x.add_(0)
        with torch.cuda.stream(torch.cuda.default_stream()):
            torch.mul(x, 2, out=out)
    torch.cuda.synchronize()
    old = out.clone()
    x.fill_(5.0)
    g.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, old)


def works() -> None:
    """The launcher takes the current stream."""
    x = torch.ones(16, device="cuda")
    out = torch.zeros(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g), torch.cuda.stream(torch.cuda.current_stream()):
        torch.mul(x, 2, out=out)
    for value in (5.0, 6.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2)
