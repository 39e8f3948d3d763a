"""Normalizing flow with activation normalisation fitted to the first batch."""
import torch
from torch import nn


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.fitted = False

    @torch.no_grad()
    def fit(self, x):
        spread = x.std(0).clamp_min(1e-3)
        if not torch.isfinite(spread).all():
            raise ValueError("first batch is degenerate")
        print(f"actnorm: mean spread {spread.mean().item():.3f}")
        self.loc.copy_(-x.mean(0))
        self.log_scale.copy_(-spread.log())
        self.fitted = True

    def forward(self, x):
        if not self.fitted:
            self.fit(x)
        return (x + self.loc) * self.log_scale.exp(), self.log_scale.sum()


class Flow(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.norm = ActNorm(dim)
        self.shift = nn.Sequential(nn.Linear(dim // 2, 8), nn.Tanh(), nn.Linear(8, dim // 2))

    def forward(self, x):
        z, logdet = self.norm(x)
        a, b = z.chunk(2, dim=1)
        return torch.cat([a, b + self.shift(a)], 1), logdet


def make(device="cuda"):
    torch.manual_seed(62)
    flow = Flow().to(device)

    def nll(x):
        with torch.no_grad():
            z, logdet = flow(x)
        return 0.5 * (z * z).sum(1).mean() - logdet

    inputs = lambda: (2 * torch.randn(32, 4, device=device) + 1,)
    return {"fn": nll, "inputs": inputs, "state": lambda: list(flow.parameters()), "kind": "inference"}
