"""Discrete codebook with an annealed relaxation temperature."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Annealer:
    def __init__(self, start, end, rate):
        self.start, self.end, self.rate = start, end, rate
        self.ticks = 0

    def __float__(self):
        value = max(self.end, self.start * math.exp(-self.rate * self.ticks))
        self.ticks += 1
        return value


class Codebook(nn.Module):
    def __init__(self, dim=12, codes=16):
        super().__init__()
        self.query = nn.Linear(dim, codes)
        self.entries = nn.Parameter(torch.randn(codes, dim))
        self.tau = Annealer(2.0, 0.1, 0.15)

    def assign(self, x):
        logits = self.query(x)
        return F.softmax(logits / float(self.tau), dim=-1)

    def forward(self, x):
        weights = self.assign(x)
        usage = weights.mean(0)
        entropy = -(usage * (usage + 1e-8).log()).sum()
        return weights @ self.entries, entropy


def make(device="cuda"):
    book = Codebook().to(device)
    params = list(book.parameters())

    def step(x):
        recon, entropy = book(x)
        loss = F.mse_loss(recon, x) - 0.01 * entropy
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            torch._foreach_add_(params, grads, alpha=-0.1)
        return loss.detach(), recon.detach()

    def inputs():
        return (torch.randn(32, 12, device=device),)

    return {"fn": step, "inputs": inputs, "state": lambda: params, "kind": "training_step"}
