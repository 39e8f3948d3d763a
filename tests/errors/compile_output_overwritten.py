"""compile-output-overwritten: the first result is read after the second call."""

import torch


def square(t: torch.Tensor) -> torch.Tensor:
    return t @ t


def fails() -> None:
    """Both calls return memory of the same pool; the second one takes the first one's back."""
    fast = torch.compile(square, mode="reduce-overhead")
    x = torch.randn(16, 16, device="cuda")
    y1 = fast(x)
    y2 = fast(x + 1)
    (y1 + y2).sum()


def works() -> None:
    """What is kept is cloned outside the compiled function."""
    fast = torch.compile(square, mode="reduce-overhead")
    kept = []
    for value in range(6):
        x = torch.eye(16, device="cuda") * value
        kept.append(fast(x).clone())
    for value in range(6):
        assert kept[value][0, 0].item() == value**2
