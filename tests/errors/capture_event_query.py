"""capture-event-query: an event recorded in the capture is asked whether it is done."""

import torch


def fails() -> None:
    """A buffer pool polls its event in the region."""
    x = torch.ones(16, device="cuda")
    done = torch.cuda.Event()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x.mul_(2)
        done.record()
        done.query()


def works() -> None:
    """The event is recorded after the replay and polled there."""
    x = torch.ones(16, device="cuda")
    done = torch.cuda.Event()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * 2
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        done.record()
        done.synchronize()
        assert done.query()
        assert torch.equal(out, x * 2)
