"""Mixture-of-experts layer with a loop over experts."""
import torch
from torch import nn


class Expert(nn.Sequential):
    def __init__(self, dim):
        super().__init__(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))


class Router(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)

    def forward(self, x):
        prob = self.gate(x).softmax(-1)
        weight, choice = prob.topk(2, dim=-1)
        return weight / weight.sum(-1, keepdim=True), choice

    @staticmethod
    def members(choice, expert):
        """Rows and slots assigned to one expert."""
        return torch.where(choice == expert)


class MoE(nn.Module):
    def __init__(self, dim=16, experts=4):
        super().__init__()
        self.router = Router(dim, experts)
        self.experts = nn.ModuleList(Expert(dim) for _ in range(experts))

    def forward(self, x):
        weight, choice = self.router(x)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            row, slot = self.router.members(choice, e)
            y = expert(x[row]) * weight[row, slot, None]
            out.index_add_(0, row, y)
        return out


def make(device="cuda"):
    moe = MoE().to(device).requires_grad_(False)

    def inputs():
        return (torch.randn(32, 16, device=device),)

    return {"fn": moe, "inputs": inputs, "kind": "inference"}
