"""Recommender tower over baskets of items that repeat within a batch."""
import torch
from torch import nn


class SharedRows(nn.Module):
    """Looks every distinct item up one time only."""

    def __init__(self, items, dim):
        super().__init__()
        self.table = nn.Embedding(items, dim)
        self.refine = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, ids):
        rows, where = ids.unique(return_inverse=True)
        return self.refine(self.table(rows))[where]


class Basket(nn.Module):
    def __init__(self, items=500, dim=24):
        super().__init__()
        self.rows = SharedRows(items, dim)
        self.user = nn.Embedding(100, dim)
        self.mix = nn.Linear(2 * dim, 1)

    def forward(self, user, ids):
        basket = self.rows(ids).mean(dim=1)
        u = self.user(user)
        return torch.sigmoid(self.mix(torch.cat([u, basket], dim=-1))).squeeze(-1)


def make(device="cuda"):
    model = Basket().to(device).eval().requires_grad_(False)

    def inputs():
        return (torch.randint(0, 100, (32,), device=device),
                torch.randint(0, 500, (32, 7), device=device))

    return {"fn": model, "inputs": inputs, "kind": "inference"}
