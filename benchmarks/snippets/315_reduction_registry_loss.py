"""Triplet metric learning with a table of mining strategies."""
import torch
import torch.nn.functional as F
from torch import nn

MINERS = {}


def miner(name):
    def add(fn):
        MINERS[name] = fn
        return fn
    return add


@miner("semihard")
def semihard(pos, neg, margin):
    keep = (neg > pos) & (neg < pos + margin)
    if not keep.any():
        return (pos - neg + margin).relu().mean()
    return (pos - neg + margin)[keep].mean()


@miner("logged")
def logged(pos, neg, margin):
    loss = (pos - neg + margin).relu()
    print("active", (loss > 0).sum().item(), "of", loss.numel())
    return loss.mean()


@miner("smooth")
def smooth(pos, neg, margin):
    return F.softplus(pos - neg + margin).mean()


class Metric(nn.Module):
    def __init__(self, dim=30, out=12, mining="smooth"):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(dim, 40), nn.PReLU(), nn.Linear(40, out))
        self.mine = MINERS[mining]

    def forward(self, a, p, n):
        a, p, n = (F.normalize(self.f(t), dim=-1) for t in (a, p, n))
        return self.mine((a - p).square().sum(-1), (a - n).square().sum(-1), 0.2)


def make(device="cuda"):
    metric = Metric().to(device)
    opt = torch.optim.SGD(metric.parameters(), lr=0.1)

    def step(a, p, n):
        opt.zero_grad()
        loss = metric(a, p, n)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return tuple(torch.randn(16, 30, device=device) for _ in range(3))

    return {"fn": step, "inputs": inputs, "state": lambda: list(metric.parameters()), "kind": "training_step"}
