"""Denoiser that picks a preconditioning gain by noise level."""
from bisect import bisect_right

import torch
from torch import nn

EDGES = (0.1, 0.3, 1.0, 3.0)
GAINS = (1.0, 0.9, 0.6, 0.3, 0.1)


def gain_for(level):
    return GAINS[bisect_right(EDGES, level)]


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(8, 1, 3, padding=1),
        )

    def forward(self, noisy):
        level = noisy.flatten(1).std(dim=1).mean()
        return noisy - gain_for(level) * self.net(noisy)


class Pipeline:
    def __init__(self, model):
        self.model = model.eval()

    @torch.no_grad()
    def __call__(self, noisy):
        return self.model(noisy).clamp(-1, 1)


def make(device="cuda"):
    torch.manual_seed(16)
    pipe = Pipeline(Denoiser().to(device))
    return {"fn": pipe, "inputs": lambda: (torch.randn(2, 1, 8, 8, device=device),), "kind": "inference"}
