"""capture-waits-outside: the captured stream waits for an event recorded before the capture."""

import torch


def fails() -> None:
    """The event of a loader stream is waited for inside the region."""
    x = torch.ones(16, device="cuda")
    loader_stream, loaded = torch.cuda.Stream(), torch.cuda.Event()
    with torch.cuda.stream(loader_stream):
        x.fill_(2.0)
        loaded.record()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.cuda.current_stream().wait_event(loaded)
        x.mul_(2)


def works() -> None:
    """The wait stands before each replay, outside the region."""
    x = torch.ones(16, device="cuda")
    loader_stream, loaded = torch.cuda.Stream(), torch.cuda.Event()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * 2
    for value in (2.0, 7.0):
        with torch.cuda.stream(loader_stream):
            x.fill_(value)
            loaded.record()
        torch.cuda.current_stream().wait_event(loaded)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, torch.full_like(out, 2 * value))
