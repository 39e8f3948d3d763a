"""compile-output-changes-silently: in steady state the old result becomes the new one, without an error."""

import torch


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """Two results, one tensor."""
    fast = torch.compile(double, mode="reduce-overhead")
    for _ in range(3):
        fast(torch.zeros(64, device="cuda"))
    first = fast(torch.ones(64, device="cuda"))
    assert first[0].item() == 2
    second = fast(torch.full((64,), 5.0, device="cuda"))
    assert second[0].item() == 10
    assert torch.equal(first, second)


def works() -> None:
    """The results are cloned."""
    fast = torch.compile(double, mode="reduce-overhead")
    kept = [fast(torch.full((64,), float(value), device="cuda")).clone() for value in range(6)]
    assert [t[0].item() for t in kept] == [0, 2, 4, 6, 8, 10]
