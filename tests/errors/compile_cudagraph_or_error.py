"""compile-cudagraph-or-error: strict mode turns a skip into an exception."""

import torch


def bump(t: torch.Tensor) -> torch.Tensor:
    return t.add_(1)


def fails() -> None:
    """The argument is written in place, and skipping is not allowed."""
    torch._inductor.config.triton.cudagraph_or_error = True
    fast = torch.compile(bump, mode="reduce-overhead")
    fast(torch.zeros(64, device="cuda"))


def works() -> None:
    """The function returns a new tensor; strict mode has nothing to say."""
    torch._inductor.config.triton.cudagraph_or_error = True
    fast = torch.compile(lambda t: t + 1, mode="reduce-overhead")
    for value in range(6):
        out = fast(torch.full((64,), float(value), device="cuda"))
        assert out[0].item() == value + 1
