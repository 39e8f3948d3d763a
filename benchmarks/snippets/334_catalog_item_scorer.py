"""Ranks a fixed catalog slice for a batch of shoppers."""
import torch
from torch import nn


class Catalog:
    """Product metadata kept by the application."""

    def __init__(self, names):
        self._names = names
        self._cursor = 2

    def item(self):
        return self._cursor * 10

    def tolist(self):
        return list(self._names)

    def cpu(self):
        return self

    def __len__(self):
        return len(self._names)


class Scorer(nn.Module):
    def __init__(self, catalog, dim=16):
        super().__init__()
        self.catalog = catalog
        self.rows = nn.Embedding(len(catalog), dim)
        self.user = nn.Linear(12, dim)

    def forward(self, user):
        first = self.catalog.cpu().item()
        names = self.catalog.tolist()[first:first + 25]
        rows = self.rows.weight[first:first + len(names)]
        logits = torch.tanh(self.user(user)) @ rows.t()
        if self.catalog.item() > 10:
            logits = logits - logits.mean(dim=-1, keepdim=True)
        return logits.softmax(-1)


def make(device="cuda"):
    catalog = Catalog([f"sku-{i}" for i in range(80)])
    model = Scorer(catalog).to(device).eval().requires_grad_(False)

    def inputs():
        return (torch.randn(10, 12, device=device),)

    return {"fn": model, "inputs": inputs, "kind": "inference"}
