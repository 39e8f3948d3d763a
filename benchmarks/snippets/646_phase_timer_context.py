"""Ranking model whose phases are timed with a context manager."""
import collections
import time

import torch
from torch import nn


class PhaseTimer:
    totals = collections.defaultdict(float)

    def __init__(self, name):
        self.name = name

    @staticmethod
    def _settle():
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def __enter__(self):
        self._settle()
        self.start = time.perf_counter()
        return self

    def __exit__(self, *exc):
        self._settle()
        self.totals[self.name] += time.perf_counter() - self.start
        return False


class Ranker(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, 8))
        self.cross = nn.Bilinear(8, 8, 1)

    def forward(self, query, docs):
        with PhaseTimer("encode"):
            q, d = self.encode(query), self.encode(docs)
        with PhaseTimer("cross"):
            q = q.unsqueeze(1).expand_as(d).contiguous()
            scores = self.cross(q, d).squeeze(-1)
        return scores.sort(dim=-1, descending=True).values


def make(device="cuda"):
    ranker = Ranker().to(device)
    for p in ranker.parameters():
        p.requires_grad = False

    def inputs():
        return torch.randn(4, 16, device=device), torch.randn(4, 10, 16, device=device)

    return {"fn": ranker, "inputs": inputs, "kind": "inference"}
