"""Residual MLP blocks with an optional learned gain."""
import torch
from torch import nn


class Block(nn.Module):
    default_gain = 1.0

    def __init__(self, width, learned):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.raw_gain = nn.Parameter(torch.tensor(0.5)) if learned else None

    @property
    def gain(self):
        return self.raw_gain or self.default_gain

    def forward(self, x):
        inner = self.down(torch.relu(self.up(self.norm(x))))
        return x + self.gain * inner


class Stack(nn.Module):
    def __init__(self, width=16, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, learned=i > 0) for i in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def make(device="cuda"):
    torch.manual_seed(7)
    net = Stack().to(device)
    net.eval()
    call = torch.no_grad()(net.forward)
    return {"fn": call, "inputs": lambda: (torch.randn(8, 16, device=device),), "kind": "inference"}
