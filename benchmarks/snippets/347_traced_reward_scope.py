"""Advantage estimation with a named scope around each stage."""
import logging

import torch
from torch import nn

log = logging.getLogger("advantage")


class Scope:
    def __init__(self, name):
        self.name = name
        self.value = None

    def __enter__(self):
        return self

    def watch(self, t):
        self.value = t.mean()
        return t

    def __exit__(self, *exc):
        log.debug(f"{self.name}: {self.value:.4f}")
        return False


def gae(reward, value, gamma=0.99, lam=0.95):
    adv = []
    last = torch.zeros_like(reward[0])
    for t in reversed(range(reward.shape[0])):
        delta = reward[t] + gamma * value[t + 1] - value[t]
        last = delta + gamma * lam * last
        adv.append(last)
    return torch.stack(adv[::-1])


def make(device="cuda"):
    critic = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)

    @torch.no_grad()
    def advantage(obs, reward):
        with Scope("value") as s:
            value = s.watch(critic(obs).squeeze(-1))
        with Scope("gae") as s:
            adv = s.watch(gae(reward, value))
        return (adv - adv.mean()) / (adv.std() + 1e-8), adv + value[:-1]

    def inputs():
        return torch.randn(9, 6, 12, device=device), torch.randn(8, 6, device=device)

    return {"fn": advantage, "inputs": inputs, "kind": "inference"}
