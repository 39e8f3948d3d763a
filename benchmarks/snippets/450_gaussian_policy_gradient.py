"""Reparameterised continuous-control actor update."""
import torch
import torch.nn as nn
from torch import distributions as D


class Actor(nn.Module):
    def __init__(self, obs=8, act=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 64), nn.ELU())
        self.mu = nn.Linear(64, act)
        self.log_std = nn.Linear(64, act)

    def dist(self, obs):
        h = self.body(obs)
        std = self.log_std(h).clamp(-4, 1).exp()
        return D.Normal(self.mu(h), std)

    def forward(self, obs):
        d = self.dist(obs)
        raw = d.rsample()
        act = raw.tanh()
        logp = d.log_prob(raw) - torch.log1p(-act.square() + 1e-6)
        return act, logp.sum(-1)


class Critic(nn.Module):
    def __init__(self, obs=8, act=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs + act, 64), nn.ELU(), nn.Linear(64, 1))

    def forward(self, obs, act):
        return self.net(torch.cat([obs, act], -1)).squeeze(-1)


def make(device="cuda"):
    torch.manual_seed(36)
    actor, critic = Actor().to(device), Critic().to(device).requires_grad_(False)
    opt = torch.optim.SGD(actor.parameters(), lr=0.01)

    def update(obs):
        opt.zero_grad(set_to_none=True)
        act, logp = actor(obs)
        loss = (0.1 * logp - critic(obs, act)).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return {"fn": update, "inputs": lambda: (torch.randn(32, 8, device=device),),
            "state": lambda: list(actor.parameters()), "kind": "training_step"}
