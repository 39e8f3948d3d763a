"""compile-pending-backward: forwards with gradients enabled, and never a backward."""

import torch
from torch import nn


def fails() -> None:
    """Each forward waits for its backward, so no step can begin."""
    fast = torch.compile(nn.Linear(64, 64, device="cuda"), mode="reduce-overhead")
    out = None
    for _ in range(5):
        out = fast(torch.randn(8, 64, device="cuda"))
    assert out is not None


def works() -> None:
    """Evaluation runs without gradients."""
    layer = nn.Linear(64, 64, device="cuda")
    fast = torch.compile(layer, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(6):
            x = torch.randn(8, 64, device="cuda")
            out = fast(x)
            torch.testing.assert_close(out, layer(x), rtol=1e-3, atol=1e-3)
