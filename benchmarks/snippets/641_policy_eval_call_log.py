"""Policy network with a light call log."""
import collections
import functools
import logging

import torch
from torch import nn

logger = logging.getLogger("policy")
CALLS = collections.Counter()


def counted(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        CALLS[fn.__qualname__] += 1
        if CALLS[fn.__qualname__] % 100 == 0:
            logger.info("%s called %d times", fn.__qualname__, CALLS[fn.__qualname__])
        return fn(*args, **kwargs)
    return wrapper


class Policy(nn.Module):
    def __init__(self, obs=10, act=3):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.mean = nn.Linear(32, act)
        self.value = nn.Linear(32, 1)
        self.n_forward = 0

    @counted
    def encode(self, obs):
        return self.trunk(obs)

    @counted
    def forward(self, obs):
        self.n_forward += 1
        h = self.encode(obs)
        return torch.tanh(self.mean(h)), self.value(h).squeeze(-1)


def make(device="cuda"):
    policy = Policy().to(device).requires_grad_(False)

    def inputs():
        return (torch.randn(64, 10, device=device),)

    return {"fn": policy, "inputs": inputs, "kind": "inference"}
