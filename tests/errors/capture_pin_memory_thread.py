"""capture-pin-memory-thread: a DataLoader pins a batch while the capture is open."""

import contextlib
import time

import torch
from torch.utils.data import DataLoader


class Growing:
    """Slow batches that grow, so that each needs new pinned memory."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.5)
        return torch.zeros(4_000_000 * (index + 1))


def capture_in_the_epoch(mode: str) -> int:
    """Begins an epoch, captures in it, goes on: the number of batches."""
    x = torch.ones(16, device="cuda")
    batches = iter(DataLoader(Growing(), batch_size=None, num_workers=1, pin_memory=True))
    next(batches)
    g = torch.cuda.CUDAGraph()
    with contextlib.suppress(RuntimeError):  # the user falls back to eager
        with torch.cuda.graph(g, capture_error_mode=mode):
            out = x * 2
            time.sleep(2)
        for value in (1.0, 3.0):
            x.fill_(value)
            g.replay()
            torch.cuda.synchronize()
            assert torch.equal(out, x * 2)
    return 1 + len(list(batches))


def fails() -> None:
    """In the default mode the loader's thread gets the error too, and hands it on with the next batch."""
    capture_in_the_epoch("global")


def works() -> None:
    """Only the capturing thread is policed."""
    assert capture_in_the_epoch("thread_local") == 8
