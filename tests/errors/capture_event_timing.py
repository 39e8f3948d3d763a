"""capture-event-timing: ordinary timing events are recorded in the capture."""

import torch


def fails() -> None:
    """elapsed_time() after the replay: the events never happened."""
    x = torch.ones(1024, device="cuda")
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        start.record()
        x.mul_(2)
        end.record()
    g.replay()
    torch.cuda.synchronize()
    start.elapsed_time(end)


def works() -> None:
    """External events become nodes of the graph."""
    x = torch.ones(1024, device="cuda")
    start = torch.cuda.Event(enable_timing=True, external=True)
    end = torch.cuda.Event(enable_timing=True, external=True)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        start.record()
        out = x * 2
        end.record()
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert start.elapsed_time(end) >= 0
        assert torch.equal(out, x * 2)
