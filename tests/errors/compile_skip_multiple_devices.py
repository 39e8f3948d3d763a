"""compile-skip-multiple-devices: one compiled function works on two GPUs."""

# needs: gpus=2 (two devices in one process)
import torch


def both(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return a * 2, b + 1


def fails() -> None:
    """Inputs of cuda:0 and cuda:1 in one graph."""
    fast = torch.compile(both, mode="reduce-overhead")
    for _ in range(3):
        fast(torch.ones(64, device="cuda:0"), torch.ones(64, device="cuda:1"))


def works() -> None:
    """A compiled function for each GPU, the copy between them in eager code."""
    stage0 = torch.compile(lambda a: a * 2, mode="reduce-overhead")
    stage1 = torch.compile(lambda b: b + 1, mode="reduce-overhead")
    for value in range(6):
        x = torch.full((64,), float(value), device="cuda:0")
        out = stage1(stage0(x).to("cuda:1"))
        assert out[0].item() == 2 * value + 1
