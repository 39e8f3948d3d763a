"""compile-skip-bisector: variables of a bisect run were left in the environment."""

import os

import torch


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """The bisector is told to switch CUDA graphs off: the counter begins at 0, so -1 means every graph."""
    os.environ.update(TORCH_BISECT_BACKEND="inductor", TORCH_BISECT_SUBSYSTEM="cudagraphs", TORCH_BISECT_MAX="-1")
    fast = torch.compile(double, mode="reduce-overhead")
    for _ in range(3):
        fast(torch.ones(64, device="cuda"))


def works() -> None:
    """The variables are gone."""
    for name in ("TORCH_BISECT_BACKEND", "TORCH_BISECT_SUBSYSTEM", "TORCH_BISECT_MAX"):
        os.environ.pop(name, None)
    fast = torch.compile(double, mode="reduce-overhead")
    for value in range(6):
        x = torch.full((64,), float(value), device="cuda")
        torch.testing.assert_close(fast(x), x * 2)
