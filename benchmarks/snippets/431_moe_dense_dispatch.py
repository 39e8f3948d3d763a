"""Mixture of experts evaluated densely with a load-balancing term."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseMoE(nn.Module):
    def __init__(self, dim=16, experts=4, k=2):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, dim)) for _ in range(experts)
        )
        self.k = k
        self.register_buffer("load", torch.zeros(experts))

    @property
    def count(self):
        return len(self.experts)

    def tally(self, choice):
        ones = torch.ones_like(choice, dtype=self.load.dtype)
        self.load.scatter_add_(0, choice.flatten(), ones.flatten())

    def forward(self, x):
        prob = self.router(x).softmax(-1)
        weight, choice = prob.topk(self.k, dim=-1)
        hot = F.one_hot(choice, self.count).to(x.dtype)
        combine = (hot * weight.unsqueeze(-1)).sum(1)
        self.tally(choice)
        y = sum(combine[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))
        balance = self.count * (hot.sum(1).mean(0) * prob.mean(0)).sum()
        return y, balance


def make(device="cuda"):
    torch.manual_seed(22)
    moe = DenseMoE().to(device)

    def forward(x):
        with torch.no_grad():
            y, balance = moe(x)
        return {"y": y, "balance": balance}

    return {"fn": forward, "inputs": lambda: (torch.randn(20, 16, device=device),),
            "state": lambda: [moe.load], "kind": "inference"}
