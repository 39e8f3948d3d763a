"""after-failed-capture: the caught failure leaves the capture stream current (torch <=2.14)."""

import contextlib

import torch


def fails() -> None:
    """The fallback runs on a stream that nobody orders against the rest."""
    x = torch.ones(16, device="cuda")
    before = torch.cuda.current_stream()
    with contextlib.suppress(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.sum().item()
    assert torch.cuda.current_stream() != before


def works() -> None:
    """The stream is put back, then a new capture goes well."""
    x = torch.ones(16, device="cuda")
    before = torch.cuda.current_stream()
    with contextlib.suppress(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.sum().item()
    torch.cuda.set_stream(before)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * 2
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2)
