"""Langevin refinement of samples under a small energy model."""
import math

import torch
from torch import nn


def cosine(high, low, period):
    k = 0
    while True:
        mix = 0.5 * (1 + math.cos(math.pi * (k % period) / period))
        yield low + (high - low) * mix
        k += 1


class Energy(nn.Module):
    def __init__(self, dim=10):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 32), nn.Softplus(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1) + 0.5 * x.square().sum(-1)


class Langevin:
    def __init__(self, energy, sizes):
        self.energy = energy
        self.sizes = sizes

    def _size(self):
        return next(self.sizes)

    def __call__(self, x):
        eta = self._size()
        x = x.detach().requires_grad_()
        g, = torch.autograd.grad(self.energy(x).sum(), x)
        noise = torch.randn_like(g)
        return (x - eta * g + math.sqrt(2 * eta) * noise).detach()


def make(device="cuda"):
    energy = Energy().to(device).requires_grad_(False)
    sampler = Langevin(energy, cosine(0.5, 0.01, period=15))
    return {
        "fn": sampler,
        "inputs": lambda: (torch.randn(64, 10, device=device),),
        "kind": "inference",
    }
