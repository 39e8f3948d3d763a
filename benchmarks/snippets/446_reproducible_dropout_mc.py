"""Monte-Carlo dropout estimate with its own reproducible noise source."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class NoiseSource:
    device: str
    seed: int = 17
    gen: torch.Generator = field(init=False)

    def __post_init__(self):
        self.gen = torch.Generator(device=self.device)
        self.gen.manual_seed(self.seed)

    def keep(self, like, p):
        u = torch.rand(like.shape, device=like.device, generator=self.gen)
        return (u > p).to(like.dtype) / (1 - p)


class MCNet(nn.Module):
    def __init__(self, noise):
        super().__init__()
        self.a, self.b = nn.Linear(9, 48), nn.Linear(48, 1)
        self.noise = noise

    def forward(self, x):
        h = torch.relu(self.a(x))
        return self.b(h * self.noise.keep(h, 0.3)).squeeze(-1)


def make(device="cuda"):
    torch.manual_seed(47)
    net = MCNet(NoiseSource(device)).to(device).eval()

    @torch.no_grad()
    def estimate(x):
        draws = torch.stack([net(x) for _ in range(8)])
        return draws.mean(0), draws.var(0)

    def inputs():
        return (torch.randn(12, 9, device=device),)

    return {"fn": estimate, "inputs": inputs, "kind": "inference"}
