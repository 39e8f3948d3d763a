"""One Langevin step of an annealed score-based sampler."""
import itertools
import math

import torch
from torch import nn


class ScoreNet(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 24), nn.Softplus(), nn.Linear(24, dim))

    def forward(self, x, sigma):
        return self.net(x) / sigma


def langevin(score, x, sigma, eps=0.1):
    size = eps * sigma ** 2
    drift = 0.5 * size * score(x, sigma)
    return x + drift + math.sqrt(size) * torch.randn_like(x)


def make(device="cuda"):
    torch.manual_seed(48)
    score = ScoreNet().to(device).requires_grad_(False)
    levels = itertools.cycle(2.0 * 0.7 ** k for k in range(10))

    def step(x, sigma):
        return langevin(score, x, sigma)

    def inputs():
        return torch.randn(8, 6, device=device), next(levels)

    return {"fn": step, "inputs": inputs, "kind": "inference"}
