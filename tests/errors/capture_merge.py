"""capture-merge: a stream of one open capture waits for a stream of another."""

import torch


def fails() -> None:
    """Two captures are open; the second waits for a result of the first."""
    x = torch.ones(16, device="cuda")
    left_stream, right_stream = torch.cuda.Stream(), torch.cuda.Stream()
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(left_stream):
        first.capture_begin()
        left = x * 2
    with torch.cuda.stream(right_stream):
        second.capture_begin()
        right_stream.wait_stream(left_stream)
        left.add_(1)


def works() -> None:
    """One capture after the other; the order is kept by the replays."""
    x = torch.ones(16, device="cuda")
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        left = x * 2
    with torch.cuda.graph(second):
        out = left + 1
    for value in (1.0, 5.0):
        x.fill_(value)
        first.replay()
        second.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2 + 1)
