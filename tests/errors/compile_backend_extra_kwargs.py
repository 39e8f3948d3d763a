"""compile-backend-extra-kwargs: inductor options are given to backend="cudagraphs"."""

import torch


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """This backend has no options: a warning in torch 2.13, a TypeError in older releases."""
    fast = torch.compile(double, backend="cudagraphs", options={"triton.cudagraphs": True})
    for _ in range(3):
        fast(torch.ones(64, device="cuda"))


def works() -> None:
    """Only the backend is named."""
    fast = torch.compile(double, backend="cudagraphs")
    for value in range(6):
        x = torch.full((64,), float(value), device="cuda")
        assert torch.equal(fast(x), x * 2)
