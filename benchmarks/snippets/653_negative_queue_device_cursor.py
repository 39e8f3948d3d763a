"""Contrastive queue of negatives with a write cursor."""
import torch
import torch.nn.functional as F
from torch import nn


class NegativeQueue(nn.Module):
    def __init__(self, size, dim):
        super().__init__()
        self.register_buffer("bank", F.normalize(torch.randn(size, dim), dim=-1))
        self.register_buffer("cursor", torch.zeros(1, dtype=torch.long))

    @property
    def size(self):
        return self.bank.shape[0]

    @torch.no_grad()
    def push(self, keys):
        slots = (self.cursor + torch.arange(keys.shape[0], device=keys.device)) % self.size
        self.bank.index_copy_(0, slots, keys)
        self.cursor.add_(keys.shape[0]).remainder_(self.size)


class Contrast(nn.Module):
    def __init__(self, dim=16, size=48, tau=0.2):
        super().__init__()
        self.proj = nn.Linear(24, dim)
        self.queue = NegativeQueue(size, dim)
        self.tau = tau

    @torch.no_grad()
    def forward(self, a, b):
        q, k = F.normalize(self.proj(a), dim=-1), F.normalize(self.proj(b), dim=-1)
        pos = (q * k).sum(-1, keepdim=True)
        neg = q @ self.queue.bank.t()
        logits = torch.cat([pos, neg], dim=1) / self.tau
        self.queue.push(k)
        return -logits.log_softmax(-1)[:, 0].mean()


def make(device="cuda"):
    model = Contrast().to(device)

    def inputs():
        return torch.randn(8, 24, device=device), torch.randn(8, 24, device=device)

    return {"fn": model, "inputs": inputs, "state": lambda: [model.queue.bank, model.queue.cursor], "kind": "inference"}
