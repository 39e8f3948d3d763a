"""Langevin sampler that walks through a repeating list of noise levels."""
import itertools

import torch
from torch import nn


class ScoreNet(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 64), nn.Softplus(), nn.Linear(64, dim))

    def forward(self, x, sigma):
        return self.net(x) / sigma


def geometric(high, low, count):
    ratio = (low / high) ** (1 / (count - 1))
    return [high * ratio ** i for i in range(count)]


class Langevin:
    def __init__(self, score, levels, base=2e-2):
        self.score = score
        self.levels = itertools.cycle(levels)
        self.base = base
        self.low = min(levels)

    def __iter__(self):
        return self

    def __next__(self):
        sigma = next(self.levels)
        return sigma, self.base * (sigma / self.low) ** 2

    @torch.no_grad()
    def move(self, x):
        sigma, size = next(self)
        drift = 0.5 * size * self.score(x, sigma)
        return x + drift + size ** 0.5 * 0.01 * torch.randn_like(x)


def make(device="cuda"):
    sampler = Langevin(ScoreNet().to(device), geometric(2.0, 0.2, 7))

    def inputs():
        return (torch.randn(16, 8, device=device),)

    return {"fn": sampler.move, "inputs": inputs, "kind": "inference"}
