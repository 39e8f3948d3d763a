"""compile-gradient-overwritten: gradients are accumulated into an output of the recorded backward."""

# needs: torch>=2.13 (before, the text is that of compile-output-overwritten)
import torch
from torch import nn


def fails() -> None:
    """No zero_grad: the second backward adds to a tensor that was taken back."""
    layer = nn.Linear(64, 64, device="cuda")
    fast = torch.compile(layer, mode="reduce-overhead")
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        loss = fast(torch.randn(8, 64, device="cuda")).sum()
        loss.backward()


def works() -> None:
    """The .grad buffers are allocated before the first compiled backward."""
    layer = nn.Linear(64, 64, device="cuda")
    for p in layer.parameters():
        p.grad = torch.zeros_like(p)
    fast = torch.compile(layer, mode="reduce-overhead")
    total = torch.zeros(64, device="cuda")
    for value in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        x = torch.full((8, 64), float(value), device="cuda")
        fast(x).sum().backward()
        total += x.sum(0)
    torch.testing.assert_close(layer.weight.grad, total.expand(64, 64), rtol=1e-3, atol=1e-3)
