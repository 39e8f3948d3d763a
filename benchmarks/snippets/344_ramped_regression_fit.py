"""Regression step with a ramped and decaying step size of its own."""
import math

import torch
from torch import nn


class Ramp(nn.Module):
    def __init__(self, peak, ramp, total):
        super().__init__()
        self.peak, self.ramp, self.total = peak, ramp, total
        self.register_buffer("count", torch.zeros(()))

    def forward(self):
        self.count += 1
        up = self.count / self.ramp
        down = 0.5 * (1 + torch.cos(math.pi * (self.count - self.ramp) / self.total))
        return self.peak * torch.where(self.count < self.ramp, up, down)


class Fit:
    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 1)).to(device)
        self.rate = Ramp(0.2, 5, 40).to(device)
        self.params = list(self.net.parameters())
        self.velocity = [torch.zeros_like(p) for p in self.params]

    def __call__(self, x, y):
        loss = nn.functional.huber_loss(self.net(x), y)
        grads = torch.autograd.grad(loss, self.params)
        with torch.no_grad():
            lr = self.rate()
            for p, v, g in zip(self.params, self.velocity, grads):
                v.mul_(0.9).add_(g)
                p -= lr * v
        return loss.detach(), lr


def make(device="cuda"):
    fit = Fit(device)

    def inputs():
        x = torch.randn(40, 5, device=device)
        return x, x.sin().sum(-1, keepdim=True)

    return {"fn": fit, "inputs": inputs,
            "state": lambda: fit.params + fit.velocity + [fit.rate.count], "kind": "training_step"}
