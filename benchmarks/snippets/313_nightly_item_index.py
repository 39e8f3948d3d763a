"""Candidate retrieval against a dense item index."""
import torch
from torch import nn


class ItemIndex:
    def __init__(self, items, dim, device):
        self.items, self.dim, self.device = items, dim, device
        self.live = self._build()
        self.rollback = None

    def _build(self):
        raw = torch.randn(self.items, self.dim, device=self.device)
        return nn.functional.normalize(raw, dim=-1)

    def refresh(self):
        fresh = self._build()
        self.rollback, self.live = self.live, fresh

    def __rmatmul__(self, q):
        return q @ self.live.t()


class Retriever(nn.Module):
    def __init__(self, index, feats=20):
        super().__init__()
        self.user = nn.Sequential(nn.Linear(feats, 32), nn.ReLU(), nn.Linear(32, index.dim))
        self.index = index

    def forward(self, feats):
        q = nn.functional.normalize(self.user(feats), dim=-1)
        scores = q @ self.index
        return scores.topk(10, dim=-1).values, scores.mean(-1)


def make(device="cuda"):
    index = ItemIndex(300, 16, device)
    retriever = Retriever(index).to(device).eval().requires_grad_(False)

    def inputs():
        index.refresh()
        return (torch.randn(8, 20, device=device),)

    return {"fn": retriever, "inputs": inputs, "kind": "inference"}
