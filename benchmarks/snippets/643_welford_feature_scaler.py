"""Streaming feature scaler with running mean and variance."""
import numpy as np
import torch
from torch import nn


class Welford(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("m2", torch.zeros(dim))
        self.count = np.zeros((), dtype=np.float64)

    @torch.no_grad()
    def absorb(self, x):
        n = x.shape[0]
        total = self.count + n
        delta = x.mean(0) - self.mean
        self.mean.add_(delta * float(n / total))
        self.m2.add_((x - x.mean(0)).square().sum(0) + delta.square() * float(self.count * n / total))
        self.count[...] = total

    def scale(self, x):
        return (x - self.mean) / (self.m2 / float(self.count) + 1e-4).sqrt()

    def forward(self, x):
        self.absorb(x)
        return self.scale(x)


class Forecaster(nn.Module):
    def __init__(self, dim=7, hidden=16):
        super().__init__()
        self.scaler = Welford(dim)
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.Mish(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(self.scaler(x)).squeeze(-1)


def make(device="cuda"):
    model = Forecaster().to(device).requires_grad_(False)

    def inputs():
        return (torch.randn(16, 7, device=device) * 2 + torch.arange(7, device=device),)

    return {"fn": model, "inputs": inputs, "kind": "inference",
            "state": lambda: [model.scaler.mean, model.scaler.m2]}
