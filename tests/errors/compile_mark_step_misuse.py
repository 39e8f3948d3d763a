"""compile-mark-step-misuse: one mark at the start, then a loop without marks that keeps its results."""

import torch
from torch._dynamo.utils import counters


def shift(t: torch.Tensor) -> torch.Tensor:
    return t + 1


def fails() -> None:
    """All calls are one step, so the function never leaves its warm-up: nothing is recorded."""
    fast = torch.compile(shift, mode="reduce-overhead")
    torch.compiler.cudagraph_mark_step_begin()
    kept = [fast(torch.full((64,), float(value), device="cuda")) for value in range(6)]
    assert [t[0].item() for t in kept] == [1, 2, 3, 4, 5, 6]
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] == 0


def works() -> None:
    """A mark in each iteration, and a clone of what is kept: one recording."""
    fast = torch.compile(shift, mode="reduce-overhead")
    kept = []
    for value in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        kept.append(fast(torch.full((64,), float(value), device="cuda")).clone())
    assert [t[0].item() for t in kept] == [1, 2, 3, 4, 5, 6]
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] == 1
