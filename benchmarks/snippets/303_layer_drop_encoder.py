"""Feed-forward encoder with stochastic depth."""
import random as rnd

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim, skip):
        super().__init__()
        self.skip = skip
        self.norm = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def _kept(self):
        return not self.training or rnd.random() >= self.skip

    def forward(self, h):
        if self._kept():
            return h + self.ff(self.norm(h))
        return h


class Stack(nn.Module):
    def __init__(self, dim=24, depth=10, skip=0.5):
        super().__init__()
        self.layers = nn.Sequential(*[Layer(dim, skip) for _ in range(depth)])
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        return self.head(self.layers(x).mean(dim=1))


def make(device="cuda"):
    net = Stack().to(device).train()
    params = list(net.parameters())

    def features(x, w):
        out = net(x)
        return (out * w).sum(-1).detach(), out.detach().std()

    def inputs():
        return torch.randn(6, 9, 24, device=device), torch.randn(6, 3, device=device)

    return {"fn": features, "inputs": inputs, "state": lambda: params, "kind": "inference"}
