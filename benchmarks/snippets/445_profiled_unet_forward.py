"""Tiny U-Net whose stages are timed section by section."""
import time
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F


class Section:
    totals = defaultdict(float)

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.begin = time.perf_counter()
        return self

    def __exit__(self, *exc):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        Section.totals[self.name] += time.perf_counter() - self.begin
        return False


class UNet(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.d1 = nn.Conv2d(1, ch, 3, padding=1)
        self.d2 = nn.Conv2d(ch, 2 * ch, 3, padding=1)
        self.u1 = nn.Conv2d(3 * ch, ch, 3, padding=1)
        self.out = nn.Conv2d(ch, 1, 1)

    def forward(self, x):
        with Section("down"):
            a = F.relu(self.d1(x))
            b = F.relu(self.d2(F.max_pool2d(a, 2)))
        with Section("up"):
            up = F.interpolate(b, scale_factor=2, mode="nearest")
            y = F.relu(self.u1(torch.cat([a, up], dim=1)))
        return self.out(y)


def make(device="cuda"):
    torch.manual_seed(37)
    net = UNet().to(device).requires_grad_(False)

    def inputs():
        return (torch.randn(2, 1, 16, 16, device=device),)

    return {"fn": net, "inputs": inputs, "kind": "inference"}
