"""no-inputs-to-differentiate: a graphed function that closes over its weights."""

import torch
from torch.nn import functional


def fails() -> None:
    """A function has no parameters(), and its only argument needs no gradient."""
    weight = torch.randn(64, 64, device="cuda", requires_grad=True)

    def project(x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, weight)

    torch.cuda.make_graphed_callables(project, (torch.randn(32, 64, device="cuda"),))


def works() -> None:
    """The weight is an argument."""
    weight = torch.randn(64, 64, device="cuda", requires_grad=True)

    def project(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, w)

    graphed = torch.cuda.make_graphed_callables(project, (torch.randn(32, 64, device="cuda"), weight))
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda")
        (got,) = torch.autograd.grad(graphed(x, weight).square().mean(), weight)
        (want,) = torch.autograd.grad(project(x, weight).square().mean(), weight)
        torch.testing.assert_close(got, want)
