"""Encoder whose operators are watched by a mode that stops on the first bad value."""
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Watch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.is_floating_point():
            self.verify(func, out)
        return out

    def verify(self, func, out):
        if torch.isnan(out).any():
            raise FloatingPointError(f"nan after {func}")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(7, 14), nn.GELU(), nn.Linear(14, 7), nn.LayerNorm(7))

    def forward(self, x):
        return x + self.net(x)


def make(device="cuda"):
    torch.manual_seed(11)
    encoder = Encoder().to(device)
    encoder.requires_grad_(False)

    def run(x):
        with Watch():
            return encoder(x)

    def inputs():
        return (torch.randn(5, 7, device=device),)

    return {"fn": run, "inputs": inputs, "kind": "inference"}
