"""Soft actor with a squashed Gaussian head."""
import math

import torch
import torch.distributions as D
from torch import nn

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


class GaussianHead(nn.Module):
    def __init__(self, hidden, act):
        super().__init__()
        self.mu = nn.Linear(hidden, act)
        self.log_std = nn.Linear(hidden, act)

    def forward(self, h):
        log_std = self.log_std(h).clamp(LOG_STD_MIN, LOG_STD_MAX)
        return D.Normal(self.mu(h), log_std.exp())


class Actor(nn.Module):
    def __init__(self, obs=8, act=2, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU())
        self.head = GaussianHead(hidden, act)

    def forward(self, obs):
        dist = self.head(self.trunk(obs))
        raw = dist.rsample()
        action = raw.tanh()
        correction = 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
        logp = (dist.log_prob(raw) - correction).sum(-1)
        return action, logp


def make(device="cuda"):
    actor = Actor().to(device)
    critic = nn.Linear(10, 1).to(device).requires_grad_(False)
    opt = torch.optim.SGD(actor.parameters(), lr=1e-2)

    def actor_step(obs):
        action, logp = actor(obs)
        q = critic(torch.cat([obs, action], dim=-1)).squeeze(-1)
        loss = (0.1 * logp - q).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return (torch.randn(32, 8, device=device),)

    return {"fn": actor_step, "inputs": inputs, "state": lambda: list(actor.parameters()), "kind": "training_step"}
