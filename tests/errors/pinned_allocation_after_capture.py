"""pinned-allocation-after-capture: the last reference to a pinned batch goes in the region that uploads it."""

from collections.abc import Iterator

import torch


def batches() -> Iterator[torch.Tensor]:
    """Gives a pinned batch each time, as a loader does."""
    number = 0
    while True:
        number += 1
        yield torch.full((512,), float(number)).pin_memory()


def fails() -> None:
    """The batch is drawn before the capture and dropped within it."""
    loader = batches()
    static = torch.zeros(512, device="cuda")
    held = [next(loader)]
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        static.copy_(held.pop(), non_blocking=True)
        static.mul_(2)
    next(loader)


def works() -> None:
    """The upload stands before the replay, outside the graph."""
    loader = batches()
    static = torch.zeros(512, device="cuda")
    out = torch.zeros(512, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.mul(static, 2, out=out)
    for number in (1, 2):
        static.copy_(next(loader), non_blocking=True)
        g.replay()
        assert torch.equal(out, torch.full_like(out, 2.0 * number))
