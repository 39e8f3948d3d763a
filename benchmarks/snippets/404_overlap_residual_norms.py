"""Add a separately computed residual correction to a linear model's output."""
import contextlib

import torch
import torch.nn as nn


def lane(x):
    if x.is_cuda:
        return torch.cuda.stream(torch.cuda.default_stream())
    return contextlib.nullcontext()


class Correction(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gain = nn.Parameter(torch.full((dim,), 3.0))
        self.shift = nn.Parameter(torch.linspace(-1, 1, dim))

    def forward(self, x):
        with lane(x):
            y = x * self.gain + self.shift
        return y


class Model(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.main = nn.Linear(dim, dim)
        self.extra = Correction(dim)

    def forward(self, x):
        return self.main(x), self.extra(x)


def make(device="cuda"):
    torch.manual_seed(71)
    model = Model().to(device).requires_grad_(False)

    def run(x):
        base, extra = model(x)
        return base, extra

    def inputs():
        return (torch.randn(8, 16, device=device),)

    return {"fn": run, "inputs": inputs, "kind": "inference"}
