"""Pixel-based critic with shift augmentation."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shift:
    pad: int = 4

    def offset(self):
        dy, dx = torch.randint(0, 2 * self.pad + 1, (2,)).tolist()
        return dy, dx

    def __call__(self, obs):
        h, w = obs.shape[-2:]
        big = F.pad(obs, (self.pad,) * 4, mode="replicate")
        dy, dx = self.offset()
        return big[..., dy:dy + h, dx:dx + w]


class Critic(nn.Module):
    def __init__(self, channels=3, actions=2):
        super().__init__()
        self.shift = Shift()
        self.conv = nn.Conv2d(channels, 16, 3, stride=2)
        self.q = nn.Sequential(nn.Linear(16 * 9 + actions, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, obs, act):
        h = self.conv(self.shift(obs)).relu()
        h = F.adaptive_avg_pool2d(h, 3).flatten(1)
        return self.q(torch.cat([h, act], dim=-1)).squeeze(-1)


def make(device="cuda"):
    critic = Critic().to(device)

    @torch.no_grad()
    def value(obs, act):
        pair = torch.stack([critic(obs, act), critic(obs, act)])
        return pair.amin(0), pair.mean(0)

    def inputs():
        return torch.rand(5, 3, 21, 21, device=device) * 4, torch.randn(5, 2, device=device)

    return {"fn": value, "inputs": inputs, "kind": "inference"}
