"""Residual MLP stack with per-sample stochastic depth."""
import torch
import torch.nn as nn


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = float(p)

    def extra_repr(self):
        return f"p={self.p:.3f}"

    def forward(self, x):
        if self.p == 0.0 or not self.training:
            return x
        keep = 1.0 - self.p
        gate = torch.empty(x.shape[0], 1, device=x.device, dtype=x.dtype).bernoulli_(keep)
        return x * gate / keep


class Block(nn.Module):
    def __init__(self, dim, p):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.path = DropPath(p)

    def forward(self, x):
        return x + self.path(self.ff(self.norm(x)))


class Stack(nn.Module):
    def __init__(self, dim=32, depth=5, rate=0.4):
        super().__init__()
        rates = torch.linspace(0, rate, depth).tolist()
        self.blocks = nn.ModuleList([Block(dim, p) for p in rates])

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i == 2:
                x = x + torch.randn_like(x) * 0.01
        return x


def make(device="cuda"):
    model = Stack().to(device).train()
    for p in model.parameters():
        p.requires_grad_(False)
    return {"fn": model, "inputs": lambda: (torch.randn(16, 32, device=device),), "kind": "inference"}
