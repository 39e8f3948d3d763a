"""Training step with a shadow copy of the weights whose averaging horizon ramps up."""
import copy

import torch
from torch import nn


class Shadow:
    def __init__(self, net, ceiling=0.9999):
        self.net = copy.deepcopy(net).requires_grad_(False)
        self.ceiling = ceiling
        self.seen = 0

    @property
    def decay(self):
        return min(self.ceiling, (1 + self.seen) / (10 + self.seen))

    @torch.no_grad()
    def absorb(self, net):
        self.seen += 1
        for mine, theirs in zip(self.net.parameters(), net.parameters()):
            mine.lerp_(theirs, 1 - self.decay)


class Trainer:
    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 3)).to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.3)
        self.shadow = Shadow(self.net)

    def step(self, x, y):
        self.opt.zero_grad()
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        self.opt.step()
        self.shadow.absorb(self.net)
        return loss.detach()


def make(device="cuda"):
    torch.manual_seed(32)
    trainer = Trainer(device)

    def inputs():
        return torch.randn(16, 6, device=device), torch.randint(0, 3, (16,), device=device)

    return {
        "fn": trainer.step,
        "inputs": inputs,
        "state": lambda: list(trainer.shadow.net.parameters()),
        "kind": "training_step",
    }
