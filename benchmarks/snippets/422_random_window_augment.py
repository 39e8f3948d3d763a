"""Contrastive views taken from randomly placed windows of a signal."""
from typing import Iterator, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class Windows:
    def __init__(self, length, size, views):
        self.length, self.size, self.views = length, size, views

    def __iter__(self) -> Iterator[Tuple[int, int]]:
        starts = torch.randint(0, self.length - self.size, (self.views,))
        for s in starts.tolist():
            yield s, s + self.size


class Encoder(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.conv = nn.Conv1d(1, ch, 9, stride=3)
        self.fc = nn.Linear(ch, 8)

    def forward(self, x):
        return F.normalize(self.fc(torch.relu(self.conv(x)).mean(-1)), dim=-1)


def make(device="cuda"):
    torch.manual_seed(78)
    enc = Encoder().to(device)
    windows = Windows(length=400, size=120, views=2)

    def step(x):
        a, b = (enc(x[..., lo:hi]) for lo, hi in windows)
        logits = a @ b.t() / 0.2
        target = torch.arange(x.shape[0], device=x.device)
        loss = F.cross_entropy(logits, target)
        (grad,) = torch.autograd.grad(loss, [enc.fc.weight])
        return loss.detach(), grad

    def inputs():
        return (torch.randn(8, 1, 400, device=device),)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
