"""Click model that looks up every distinct feature once."""
import torch
import torch.nn as nn


class Lookup(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.table = nn.Embedding(rows, dim)

    def compact(self, ids):
        return torch.unique(ids, return_inverse=True)

    def lookup(self, ids):
        keys, where = self.compact(ids)
        return self.table(keys)[where]


class DeepFM(Lookup):
    def __init__(self, rows=500, dim=8, fields=6):
        super().__init__(rows, dim)
        self.bias = nn.Embedding(rows, 1)
        self.deep = nn.Sequential(nn.Linear(fields * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def interactions(self, v):
        return 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(-1)

    def forward(self, ids):
        v = self.lookup(ids)
        first = self.bias(ids).sum((1, 2))
        return first + self.interactions(v) + self.deep(v.flatten(1)).squeeze(-1)


def make(device="cuda"):
    torch.manual_seed(44)
    model = DeepFM().to(device)

    @torch.no_grad()
    def ctr(ids):
        return torch.sigmoid(model(ids))

    def inputs():
        return (torch.randint(0, 500, (32, 6), device=device),)

    return {"fn": ctr, "inputs": inputs, "kind": "inference"}
