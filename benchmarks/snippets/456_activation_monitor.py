"""Residual network observed by a forward hook that writes short records."""
from collections import deque
from functools import partial

import torch
import torch.nn as nn


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.Mish())

    def forward(self, x):
        return x + self.f(x)


class Monitor:
    def __init__(self, depth=50):
        self.lines = deque(maxlen=depth)

    def record(self, name, module, args, output):
        rms = output.detach().square().mean().sqrt()
        self.lines.append(f"{name:<12s} {rms:.4f}")

    def attach(self, model):
        for name, mod in model.named_modules():
            if isinstance(mod, Residual):
                mod.register_forward_hook(partial(self.record, name))


class Net(nn.Module):
    def __init__(self, dim=16, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Residual(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return self.head(x)


def make(device="cuda"):
    torch.manual_seed(41)
    net = Net().to(device).eval()
    Monitor().attach(net)

    def infer(x):
        with torch.no_grad():
            return net(x)

    return {"fn": infer, "inputs": lambda: (torch.randn(5, 16, device=device),), "kind": "inference"}
