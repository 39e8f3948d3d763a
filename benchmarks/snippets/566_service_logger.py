"""Ranking service step that reports its score spread to the service log."""
import io
import logging

import torch
from torch import nn

sink = io.StringIO()
log = logging.getLogger("ranking.service")
log.setLevel(logging.INFO)
log.propagate = False
log.addHandler(logging.StreamHandler(sink))


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(12, 8)
        self.item = nn.Linear(20, 8)

    def forward(self, q, items):
        return torch.einsum("bd,bnd->bn", self.query(q), self.item(items))


class Service:
    def __init__(self, ranker):
        self.ranker = ranker

    def report(self, scores):
        log.info("spread %.3f over %d items", scores.std(), scores.size(1))

    @torch.no_grad()
    def handle(self, q, items):
        scores = self.ranker(q, items)
        self.report(scores)
        return scores.topk(3, dim=1).indices


def make(device="cuda"):
    torch.manual_seed(12)
    service = Service(Ranker().to(device))

    def inputs():
        return torch.randn(4, 12, device=device), torch.randn(4, 9, 20, device=device)

    return {"fn": service.handle, "inputs": inputs, "kind": "inference"}
