"""Click-through model with hashed crosses and an adaptive optimizer."""
import torch
import torch.nn.functional as F
from torch import nn


class WideDeep(nn.Module):
    def __init__(self, buckets=200, fields=4, dim=8):
        super().__init__()
        self.wide = nn.Embedding(buckets, 1)
        self.deep = nn.Embedding(buckets, dim)
        self.mlp = nn.Sequential(nn.Linear(fields * dim, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, ids):
        wide = self.wide(ids).sum(dim=(1, 2))
        deep = self.mlp(self.deep(ids).flatten(1)).squeeze(-1)
        return wide + deep


def optimizer_for(model, name="adagrad", **kw):
    kinds = {
        "adagrad": lambda ps: torch.optim.Adagrad(ps, lr_decay=0.3, **kw),
        "sgd": lambda ps: torch.optim.SGD(ps, **kw),
    }
    return kinds[name](model.parameters())


def make(device="cuda"):
    model = WideDeep().to(device)
    opt = optimizer_for(model, lr=0.3)

    def step(ids, click):
        opt.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(ids), click)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        ids = torch.randint(0, 200, (48, 4), device=device)
        return ids, (ids.sum(1) % 2).float()

    return {"fn": step, "inputs": inputs, "state": lambda: list(model.parameters()), "kind": "training_step"}
