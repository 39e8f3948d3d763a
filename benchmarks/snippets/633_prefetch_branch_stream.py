"""Two-branch fusion network, one branch on a queue of its own."""
import contextlib

import torch
from torch import nn


def on(stream):
    return contextlib.nullcontext() if stream is None else torch.cuda.stream(stream)


class Branch(nn.Module):
    def __init__(self, dim, stream=None):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, 16))
        self.stream = stream

    def forward(self, x):
        with on(self.stream):
            return self.net(x)


class Fusion(nn.Module):
    def __init__(self, device):
        super().__init__()
        extra = torch.cuda.Stream() if device == "cuda" else None
        self.left = Branch(10, extra)
        self.right = Branch(12)
        self.head = nn.Linear(32, 3)

    @torch.no_grad()
    def forward(self, a, b):
        left = self.left(a)
        right = self.right(b)
        if self.left.stream is not None:
            torch.cuda.current_stream().wait_stream(self.left.stream)
        return self.head(torch.cat([left, right], dim=-1))


def make(device="cuda"):
    model = Fusion(device).to(device)

    def inputs():
        return torch.randn(8, 10, device=device), torch.randn(8, 12, device=device)

    return {"fn": model, "inputs": inputs, "kind": "inference"}
