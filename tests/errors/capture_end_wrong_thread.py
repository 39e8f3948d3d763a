"""capture-end-wrong-thread: a capture is begun on one thread and ended on another."""

from concurrent.futures import ThreadPoolExecutor

import torch


def fails() -> None:
    """The request handler begins, a pool worker ends."""
    x = torch.ones(16, device="cuda")
    stream = torch.cuda.Stream()
    g = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()

    def finish() -> None:
        with torch.cuda.stream(stream):
            g.capture_end()

    with torch.cuda.stream(stream):
        g.capture_begin()
        x.mul_(2)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(finish).result()


def works() -> None:
    """The whole capture runs in one call on one worker."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()

    def record() -> torch.Tensor:
        with torch.cuda.graph(g):
            return x * 2

    with ThreadPoolExecutor(1) as pool:
        out = pool.submit(record).result()
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2)
