"""Contextual bandit policy gradient with an entropy bonus."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Bonus:
    coef: torch.Tensor
    decay: float

    def decayed(self):
        self.coef.mul_(self.decay)
        return self.coef

    def __rmul__(self, entropy):
        return entropy * self.decayed()


class Policy(nn.Module):
    def __init__(self, ctx=14, arms=5):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(ctx, 32), nn.Tanh(), nn.Linear(32, arms))

    def forward(self, ctx):
        return self.f(ctx).log_softmax(-1)


def make(device="cuda"):
    policy = Policy().to(device)
    bonus = Bonus(torch.tensor(2.0), decay=0.8)
    opt = torch.optim.SGD(policy.parameters(), lr=0.5)

    def step(ctx, arm, reward):
        logp = policy(ctx)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        chosen = logp.gather(1, arm.unsqueeze(1)).squeeze(1)
        loss = -(chosen * (reward - reward.mean())).mean() - entropy * bonus
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return (torch.randn(32, 14, device=device), torch.randint(0, 5, (32,), device=device),
                torch.rand(32, device=device))

    return {"fn": step, "inputs": inputs, "state": lambda: list(policy.parameters()), "kind": "training_step"}
