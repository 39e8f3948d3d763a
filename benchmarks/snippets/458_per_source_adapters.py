"""Apply one of several low-rank adapters to a batch."""
import torch
import torch.nn as nn


class Registry:
    def __init__(self, size):
        self.size = size
        self._slots = {}
        self._alive = []

    def __getitem__(self, batch):
        key = id(batch)
        if key not in self._slots:
            self._slots[key] = len(self._slots) % self.size
            self._alive.append(batch)
        return self._slots[key]


class AdapterBank(nn.Module):
    def __init__(self, dim=12, rank=3, count=16):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.down = nn.Parameter(torch.randn(count, dim, rank))
        self.up = nn.Parameter(torch.randn(count, rank, dim))
        self.registry = Registry(count)

    def forward(self, x):
        h = self.base(x)
        slot = self.registry[h]
        return h + x @ self.down[slot] @ self.up[slot]


def make(device="cuda"):
    torch.manual_seed(74)
    bank = AdapterBank().to(device)

    def run(x):
        with torch.no_grad():
            return torch.tanh(bank(x))

    def inputs():
        return (torch.randn(5, 12, device=device),)

    return {"fn": run, "inputs": inputs, "kind": "inference"}
