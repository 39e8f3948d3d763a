"""Deep residual network where whole layers are occasionally skipped while training."""
import random

import torch
from torch import nn


class Skippable(nn.Module):
    def __init__(self, body, rate):
        super().__init__()
        self.body = body
        self.rate = rate

    def skipped(self):
        return self.training and random.random() < self.rate

    def forward(self, x):
        if self.skipped():
            return x
        return x + self.body(x)


def body(dim):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))


def build(dim, depth, rate):
    layers = [Skippable(body(dim), rate) for _ in range(depth)]
    return nn.Sequential(nn.Linear(8, dim), *layers, nn.Linear(dim, 2))


def make(device="cuda"):
    net = build(24, 10, 0.5).to(device).train()
    params = list(net.parameters())
    loss_fn = nn.SmoothL1Loss()

    def step(x, y):
        out = net(x)
        loss = loss_fn(out, y)
        grads = torch.autograd.grad(loss, params, allow_unused=True)
        with torch.no_grad():
            for p, g in zip(params, grads):
                if g is not None:
                    p.add_(g, alpha=-0.05)
        return out.detach()

    def inputs():
        return torch.randn(16, 8, device=device), torch.randn(16, 2, device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: params, "kind": "training_step"}
