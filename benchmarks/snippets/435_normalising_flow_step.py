"""Affine-coupling flow trained by maximum likelihood."""
import functools
import math

import torch
import torch.nn as nn

clip = functools.partial(nn.utils.clip_grad_norm_, max_norm=5.0, error_if_nonfinite=True)


class Coupling(nn.Module):
    def __init__(self, dim, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(dim // 2, 32), nn.Tanh(), nn.Linear(32, dim))

    def forward(self, x):
        a, b = x.chunk(2, -1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, -1)
        s = torch.tanh(s)
        return torch.cat([a, b * s.exp() + t], -1), s.sum(-1)


class Flow(nn.Module):
    def __init__(self, dim=6, depth=4):
        super().__init__()
        self.steps = nn.ModuleList(Coupling(dim, i % 2 == 1) for i in range(depth))

    def log_prob(self, x):
        total = 0.0
        for s in self.steps:
            x, ld = s(x)
            total = total + ld
        return total - 0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)


def make(device="cuda"):
    torch.manual_seed(45)
    flow = Flow().to(device)
    opt = torch.optim.SGD(flow.parameters(), lr=0.01, momentum=0.5)

    def step(x):
        opt.zero_grad(set_to_none=True)
        nll = -flow.log_prob(x).mean()
        nll.backward()
        norm = clip(flow.parameters())
        opt.step()
        return nll.detach(), norm

    return {"fn": step, "inputs": lambda: (torch.randn(32, 6, device=device),),
            "state": lambda: list(flow.parameters()), "kind": "training_step"}
