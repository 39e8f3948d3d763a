"""Classifier-free guidance around a small score model."""
import contextvars
import itertools

import torch
from torch import nn

GUIDANCE = contextvars.ContextVar("guidance", default=1.0)
CLIP = contextvars.ContextVar("clip", default=3.0)


class Options:
    @property
    def guidance(self):
        return GUIDANCE.get()

    @property
    def clip(self):
        return CLIP.get()


class Score(nn.Module):
    def __init__(self, dim=10, classes=5):
        super().__init__()
        self.cls = nn.Embedding(classes + 1, dim)
        self.net = nn.Sequential(nn.Linear(2 * dim, 48), nn.SiLU(), nn.Linear(48, dim))
        self.null = classes

    def forward(self, x, label):
        return self.net(torch.cat([x, self.cls(label)], dim=-1))


class Guided:
    def __init__(self, score):
        self.score = score
        self.options = Options()

    def __call__(self, x, label):
        cond = self.score(x, label)
        free = self.score(x, torch.full_like(label, self.score.null))
        out = free + self.options.guidance * (cond - free)
        return out.clamp(-self.options.clip, self.options.clip)


def make(device="cuda"):
    guided = Guided(Score().to(device).requires_grad_(False))
    requests = itertools.count()

    def inputs():
        GUIDANCE.set(1.0 + 1.5 * next(requests))
        return torch.randn(8, 10, device=device), torch.randint(0, 5, (8,), device=device)

    return {"fn": guided, "inputs": inputs, "kind": "inference"}
