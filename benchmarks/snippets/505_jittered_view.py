"""Contrastive views with brightness and gain jitter drawn by the base augmentation."""
import numpy as np
import torch
from torch import nn


class Augment:
    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def amount(self, low, high):
        return float(self._rng.uniform(low, high))

    def __call__(self, x):
        return self.transform(x)


class Jitter(Augment):
    def transform(self, x):
        return x * self.amount(0.4, 1.6) + self.amount(-0.5, 0.5)


class Pair(Augment):
    def __init__(self, seed):
        super().__init__(seed)
        self.first, self.second = Jitter(seed + 1), Jitter(seed + 2)

    def transform(self, x):
        return torch.cat([self.first(x), self.second(x)])


def make(device="cuda"):
    torch.manual_seed(41)
    views = Pair(7)
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(device)

    @torch.no_grad()
    def embed(x):
        z = nn.functional.normalize(encoder(views(x)), dim=1)
        return z @ z.T

    def inputs():
        return (torch.rand(3, 3, 10, 10, device=device),)

    return {"fn": embed, "inputs": inputs, "kind": "inference"}
