"""compile-other-thread-assert: a compiled function's first call comes from a worker thread (torch before 2.13)."""

from concurrent.futures import ThreadPoolExecutor

import torch


def shift(t: torch.Tensor) -> torch.Tensor:
    return t + 1


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """The main thread has loaded the trees; the worker has no manager."""
    torch.compile(shift, mode="reduce-overhead")(torch.ones(64, device="cuda"))
    fast = torch.compile(double, mode="reduce-overhead")
    with ThreadPoolExecutor(max_workers=1) as worker:
        worker.submit(fast, torch.ones(64, device="cuda")).result()


def works() -> None:
    """One thread owns compilation, warm-up and every call."""
    fast = torch.compile(double, mode="reduce-overhead")

    def serve(value: float) -> float:
        return fast(torch.full((64,), value, device="cuda"))[0].item()

    with ThreadPoolExecutor(max_workers=1) as owner:
        for value in range(6):
            assert owner.submit(serve, float(value)).result() == 2 * value
