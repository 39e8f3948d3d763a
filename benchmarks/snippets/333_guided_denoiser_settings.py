"""Classifier-free guided denoising for an interactive client."""
import random

import torch
from torch import nn

SESSION = {"strength": 3.0, "clip": True}


class Guided(nn.Module):
    def __init__(self, dim=32, cond=8):
        super().__init__()
        self.inp = nn.Linear(dim + cond, 64)
        self.mid = nn.Linear(64, 64)
        self.out = nn.Linear(64, dim)
        self.null = nn.Parameter(torch.zeros(cond))

    @property
    def strength(self):
        return SESSION["strength"]

    def eps(self, x, c):
        h = torch.nn.functional.silu(self.inp(torch.cat([x, c], dim=-1)))
        return self.out(h + torch.nn.functional.silu(self.mid(h)))

    def forward(self, x, c):
        e1 = self.eps(x, c)
        e0 = self.eps(x, self.null.expand_as(c))
        e = e0 + self.strength * (e1 - e0)
        if SESSION["clip"]:
            e = e.clamp(-4, 4)
        return x - 0.3 * e


class Client:
    """Stands for the request loop."""

    def __init__(self, device):
        self.device = device

    def __call__(self):
        SESSION["strength"] = random.uniform(2.0, 12.0)
        return torch.randn(4, 32, device=self.device), torch.randn(4, 8, device=self.device)


def make(device="cuda"):
    net = Guided().to(device).eval().requires_grad_(False)
    return {"fn": net, "inputs": Client(device), "kind": "inference"}
