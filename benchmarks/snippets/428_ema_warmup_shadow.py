"""Classifier training that maintains averaged weights next to the model."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Shadow:
    def __init__(self, model, ceiling=0.999):
        self.module = copy.deepcopy(model).requires_grad_(False)
        self.ceiling = ceiling
        self.updates = 0

    def decay(self):
        return min(self.ceiling, (1 + self.updates) / (4 + self.updates))

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        d = self.decay()
        for s, p in zip(self.module.parameters(), model.parameters()):
            s.mul_(d).add_(p, alpha=1 - d)


def make(device="cuda"):
    torch.manual_seed(61)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    shadow = Shadow(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.5)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        shadow.update(net)
        return loss.detach(), shadow.module(x)

    def inputs():
        return torch.randn(16, 8, device=device), torch.randint(0, 4, (16,), device=device)

    return {"fn": step, "inputs": inputs,
            "state": lambda: list(shadow.module.parameters()), "kind": "training_step"}
