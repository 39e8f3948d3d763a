"""Reward shaping for a batch of rollouts, with a separate rule for finished ones."""
import torch
from torch import nn


class Shaper(nn.Module):
    def __init__(self, obs=8):
        super().__init__()
        self.potential = nn.Linear(obs, 1)
        self.gamma = 0.97

    def bonus(self, finished):
        match finished.sum():
            case 0:
                return 0.0
            case _:
                return 1.0

    def forward(self, obs, nxt, reward, finished):
        before = self.potential(obs).squeeze(-1)
        after = self.potential(nxt).squeeze(-1) * (~finished)
        shaped = reward + self.gamma * after - before
        return shaped + self.bonus(finished) * finished


def make(device="cuda"):
    torch.manual_seed(6)
    shaper = Shaper().to(device)
    shaper.requires_grad_(False)

    def inputs():
        return (
            torch.randn(16, 8, device=device),
            torch.randn(16, 8, device=device),
            torch.randn(16, device=device),
            torch.rand(16, device=device) < 0.2,
        )

    return {"fn": shaper.forward, "inputs": inputs, "kind": "inference"}
