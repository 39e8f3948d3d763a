"""Recommender features: bucketised numbers, a fixed column plan and a padded list of active flags."""
import torch
from torch import nn


class ColumnPlan:
    """Order in which named columns are consumed."""

    def __init__(self, names):
        self._names = tuple(names)

    def tolist(self):
        return sorted(self._names)

    def nonzero(self):
        return [n for n in self._names if n]

    def any(self):
        return bool(self._names)


class Features(nn.Module):
    def __init__(self, plan, dim=6):
        super().__init__()
        self.plan = plan
        self.register_buffer("edges", torch.linspace(-2, 2, 9))
        self.tables = nn.ModuleDict({n: nn.Embedding(10, dim) for n in plan.tolist()})
        self.flags = nn.Embedding(13, dim, padding_idx=12)

    def forward(self, numbers, active):
        buckets = torch.bucketize(numbers, self.edges)
        parts = []
        if self.plan.any():
            for col, name in enumerate(self.plan.tolist()):
                parts.append(self.tables[name](buckets[:, col]))
        rows = torch.nonzero_static(active, size=12, fill_value=-1)
        ids = torch.where(rows[:, 1] < 0, 12, rows[:, 1])
        pooled = self.flags(ids).sum(0, keepdim=True).expand(numbers.shape[0], -1)
        return torch.cat(parts + [pooled], dim=-1) / len(self.plan.nonzero())


def make(device="cuda"):
    model = Features(ColumnPlan(["price", "age", "clicks"])).to(device).requires_grad_(False)

    def inputs():
        return torch.randn(8, 3, device=device), torch.rand(8, 12, device=device) < 0.1

    return {"fn": model, "inputs": inputs, "kind": "inference"}
