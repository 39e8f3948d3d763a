"""Full deterministic sampling loop of a small diffusion model."""
import math

import torch
from torch import nn


class Schedule:
    def __init__(self, train_steps=100, sample_steps=8):
        beta = torch.linspace(1e-4, 0.08, train_steps, dtype=torch.float64)
        self.bar = (1 - beta).cumprod(0).tolist()
        stride = train_steps // sample_steps
        self.steps = list(range(train_steps - 1, -1, -stride))

    def __iter__(self):
        for now, then in zip(self.steps, self.steps[1:] + [-1]):
            yield now, self.bar[now], self.bar[then] if then >= 0 else 1.0


class Eps(nn.Module):
    def __init__(self, dim=16, hid=48):
        super().__init__()
        self.hid = hid
        self.a = nn.Linear(dim, hid)
        self.b = nn.Linear(hid, dim)

    def time(self, t, device):
        k = torch.arange(self.hid // 2, device=device) * (-math.log(1e4) * 2 / self.hid)
        w = t * k.exp()
        return torch.cat([w.sin(), w.cos()])

    def forward(self, x, t):
        return self.b(torch.nn.functional.silu(self.a(x) + self.time(t, x.device)))


def make(device="cuda"):
    eps = Eps().to(device).eval()
    schedule = Schedule()
    counter = {"steps": 0}

    @torch.no_grad()
    def sample(cond):
        x = torch.randn(cond.shape, device=cond.device)
        counter["steps"] = 0
        for t, bar, prev in schedule:
            e = eps(x + 0.1 * cond, t)
            x0 = ((x - math.sqrt(1 - bar) * e) / math.sqrt(bar)).clamp(-3, 3)
            x = math.sqrt(prev) * x0 + math.sqrt(1 - prev) * e
            counter["steps"] += 1
        return x / counter["steps"]

    return {"fn": sample, "inputs": lambda: (torch.randn(10, 16, device=device),), "kind": "inference"}
