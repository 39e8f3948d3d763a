"""te-captured-kwarg-not-passed: a keyword of the capture is left out at replay."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te
from torch import nn


class Masked(nn.Module):
    """A layer with a mask on its output."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = te.Linear(64, 64, bias=False)

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return the output, masked where there is a mask."""
        out = self.linear(x)
        return out if attention_mask is None else out * attention_mask


def _graphed() -> nn.Module:
    sample = (torch.randn(32, 64, device="cuda", requires_grad=True),)
    return te.make_graphed_callables(Masked(), sample, sample_kwargs={"attention_mask": torch.ones(32, 64, device="cuda")})


def fails() -> None:
    """A batch without padding has no mask."""
    _graphed()(torch.randn(32, 64, device="cuda", requires_grad=True))


def works() -> None:
    """It has a neutral one."""
    block = _graphed()
    for mask in (torch.ones(32, 64, device="cuda"), torch.zeros(32, 64, device="cuda")):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        y = block(x, attention_mask=mask)
        torch.testing.assert_close(y, x @ block.linear.weight.T * mask, rtol=0.02, atol=0.02)
