"""Encoder stack that skips some of its layers at random."""
from random import random as draw

import torch
import torch.nn as nn


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.net = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        return self.net(self.norm(x))


class Droppable(nn.Module):
    def __init__(self, inner, rate):
        super().__init__()
        self.inner, self.rate = inner, rate

    def forward(self, x):
        if self.training and draw() < self.rate:
            return x
        return x + self.inner(x)


class Stack(nn.Module):
    def __init__(self, dim=20, depth=6, rate=0.5):
        super().__init__()
        self.layers = nn.Sequential(*[Droppable(FeedForward(dim), rate) for _ in range(depth)])
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        return self.out(self.layers(x)).squeeze(-1)


def make(device="cuda"):
    torch.manual_seed(63)
    net = Stack().to(device).train()

    def loss(x, y):
        err = (net(x) - y).square().mean()
        grads = torch.autograd.grad(err, [net.out.weight, net.out.bias])
        return err.detach(), *grads

    def inputs():
        return torch.randn(12, 20, device=device), torch.randn(12, device=device)

    return {"fn": loss, "inputs": inputs, "kind": "training_step"}
