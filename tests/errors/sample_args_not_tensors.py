"""sample-args-not-tensors: a number among the sample arguments."""

import torch


def _scaled(x: torch.Tensor, factor: float | torch.Tensor) -> torch.Tensor:
    return x * factor


def fails() -> None:
    """A Python float is no tensor."""
    torch.cuda.make_graphed_callables(_scaled, (torch.randn(64, device="cuda", requires_grad=True), 2.0))


def works() -> None:
    """A number that changes is a tensor on the GPU."""
    sample = torch.randn(64, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(_scaled, (sample, torch.tensor(2.0, device="cuda")))
    for factor in (2.0, 3.0):
        x = torch.randn(64, device="cuda")
        assert torch.equal(graphed(x, torch.tensor(factor, device="cuda")), x * factor)
