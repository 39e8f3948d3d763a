"""Residual stack whose block order is drawn anew, a light form of regularisation."""
from random import sample as pick

import torch
from torch import nn


def mlp(width):
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU())


class ShuffledStack(nn.Module):
    def __init__(self, width=10, depth=6):
        super().__init__()
        self.blocks = nn.ModuleList(mlp(width) for _ in range(depth))

    @property
    def route(self):
        return pick(list(self.blocks), k=len(self.blocks))

    def forward(self, x):
        for block in self.route:
            x = x + 2.0 * block(x)
        return x


def make(device="cuda"):
    torch.manual_seed(49)
    stack = ShuffledStack().to(device)
    head = nn.Linear(10, 1).to(device)

    @torch.no_grad()
    def score(x):
        return head(stack(x)).squeeze(-1)

    def inputs():
        return (torch.randn(6, 10, device=device),)

    return {"fn": score, "inputs": inputs, "kind": "inference"}
