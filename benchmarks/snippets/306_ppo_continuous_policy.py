"""Clipped policy update for a Gaussian policy over continuous actions."""
import torch
from torch import distributions as D
from torch import nn


class Actor(nn.Module):
    def __init__(self, obs=11, act=3):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act))
        self.log_std = nn.Parameter(torch.full((act,), -0.5))

    def dist(self, obs):
        mean = self.mu(obs)
        return D.Normal(mean, self.log_std.exp().expand_as(mean))


class PPO:
    def __init__(self, actor, clip=0.2, ent=0.01, lr=3e-3):
        self.actor = actor
        self.clip = clip
        self.ent = ent
        self.opt = torch.optim.SGD(actor.parameters(), lr=lr)

    def surrogate(self, obs, act, old_logp, adv):
        pi = self.actor.dist(obs)
        logp = pi.log_prob(act).sum(-1)
        ratio = (logp - old_logp).exp()
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        gain = torch.minimum(ratio * adv, clipped * adv).mean()
        return -gain - self.ent * pi.entropy().sum(-1).mean()

    def update(self, obs, act, old_logp, adv):
        self.opt.zero_grad()
        loss = self.surrogate(obs, act, old_logp, adv)
        loss.backward()
        self.opt.step()
        return loss.detach()


def make(device="cuda"):
    algo = PPO(Actor().to(device))

    def inputs():
        n = 64
        return (torch.randn(n, 11, device=device), torch.randn(n, 3, device=device),
                torch.randn(n, device=device) - 4.0, torch.randn(n, device=device))

    return {"fn": algo.update, "inputs": inputs,
            "state": lambda: list(algo.actor.parameters()), "kind": "training_step"}
