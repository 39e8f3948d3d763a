"""Rank articles with a freshness bonus that fades during the session."""
import math
import time as _t

import torch
import torch.nn as nn


class Freshness:
    def __init__(self, half_life=0.02):
        self.born = _t.monotonic()
        self.rate = math.log(2) / half_life

    def phase(self):
        age = _t.monotonic() - self.born
        return math.sin(self.rate * age)

    def __mul__(self, bonus):
        return bonus * self.phase()


class Ranker(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.user = nn.Linear(dim, dim)
        self.item = nn.Linear(dim, dim)
        self.bonus = nn.Linear(dim, 1)
        self.freshness = Freshness()

    def forward(self, user, items):
        base = torch.einsum("bd,bkd->bk", self.user(user), self.item(items))
        fresh = self.freshness * self.bonus(items).squeeze(-1)
        return base + 3.0 * fresh


def make(device="cuda"):
    torch.manual_seed(65)
    ranker = Ranker().to(device)

    @torch.no_grad()
    def rank(user, items):
        scores = ranker(user, items)
        return scores, scores.softmax(-1)

    def inputs():
        return torch.randn(4, 16, device=device), torch.randn(4, 10, 16, device=device)

    return {"fn": rank, "inputs": inputs, "kind": "inference"}
