"""Double DQN update with a dueling network and Polyak averaging."""
from copy import deepcopy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Dueling(nn.Module):
    def __init__(self, obs=6, actions=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.ReLU())
        self.value, self.adv = nn.Linear(32, 1), nn.Linear(32, actions)

    def forward(self, s):
        h = self.body(s)
        a = self.adv(h)
        return self.value(h) + a - a.mean(-1, keepdim=True)


class Agent:
    def __init__(self, device):
        self.q = Dueling().to(device)
        self.target = deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.SGD(self.q.parameters(), lr=0.05)
        self.gamma = 0.97

    @torch.no_grad()
    def bootstrap(self, r, s2, done):
        best = self.q(s2).argmax(-1, keepdim=True)
        nxt = self.target(s2).gather(1, best).squeeze(1)
        return torch.where(done, r, r + self.gamma * nxt)

    @torch.no_grad()
    def polyak(self):
        for t, p in zip(self.target.parameters(), self.q.parameters()):
            t.mul_(0.9).add_(p, alpha=0.1)

    def update(self, s, a, r, s2, done):
        self.opt.zero_grad(set_to_none=True)
        q = self.q(s).gather(1, a[:, None]).squeeze(1)
        td = F.smooth_l1_loss(q, self.bootstrap(r, s2, done))
        td.backward()
        self.opt.step()
        self.polyak()
        return td.detach()


def make(device="cuda"):
    torch.manual_seed(18)
    agent = Agent(device)

    def inputs():
        return (torch.randn(24, 6, device=device), torch.randint(0, 4, (24,), device=device),
                torch.randn(24, device=device), torch.randn(24, 6, device=device),
                torch.rand(24, device=device) < 0.2)

    return {"fn": agent.update, "inputs": inputs, "kind": "training_step",
            "state": lambda: [*agent.q.parameters(), *agent.target.parameters()]}
