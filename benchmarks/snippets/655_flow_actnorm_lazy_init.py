"""Normalizing flow with activation normalisation and affine coupling."""
import torch
from torch import nn


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self._ready = False

    @torch.no_grad()
    def _setup(self, x):
        self.shift.copy_(-x.mean(0))
        self.log_scale.copy_(-(x.std(0) + 1e-3).log())
        self._ready = True

    def forward(self, x):
        if not self._ready:
            self._setup(x)
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum()


class Coupling(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim // 2, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        s, t = self.net(a).chunk(2, dim=-1)
        s = torch.tanh(s)
        return torch.cat([b * s.exp() + t, a], dim=-1), s.sum(-1)


class Flow(nn.Module):
    def __init__(self, dim=8, depth=3):
        super().__init__()
        self.steps = nn.ModuleList(m for _ in range(depth) for m in (ActNorm(dim), Coupling(dim)))

    def forward(self, x):
        logdet = 0.0
        for step in self.steps:
            x, ld = step(x)
            logdet = logdet + ld
        return -(-0.5 * x.square().sum(-1) + logdet).mean()


def make(device="cuda"):
    flow = Flow().to(device)
    opt = torch.optim.SGD(flow.parameters(), lr=1e-2)

    def step(x):
        opt.zero_grad()
        nll = flow(x)
        nll.backward()
        opt.step()
        return nll.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(64, 8, device=device),),
            "state": lambda: list(flow.parameters()), "kind": "training_step"}
