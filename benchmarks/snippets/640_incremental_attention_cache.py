"""Incremental decoding with a preallocated key and value store."""
import torch
import torch.nn.functional as F
from torch import nn


class KVStore:
    def __init__(self, batch, heads, length, dim, device):
        self.k = torch.zeros(batch, heads, length, dim, device=device)
        self.v = torch.zeros(batch, heads, length, dim, device=device)
        self.length = length
        self.used = 0

    def __len__(self):
        return self.used

    def append(self, k, v):
        at = self.used % self.length
        self.k[:, :, at] = k
        self.v[:, :, at] = v
        self.used += 1

    def view(self):
        n = min(len(self), self.length)
        return self.k[:, :, :n], self.v[:, :, :n]


class DecodeAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, store):
        b, d = x.shape
        q = self.q(x).view(b, self.heads, 1, -1)
        k, v = self.kv(x).view(b, 2, self.heads, -1).unbind(1)
        store.append(k, v)
        keys, values = store.view()
        y = F.scaled_dot_product_attention(q, keys, values)
        return self.o(y.reshape(b, d))


def make(device="cuda"):
    attn = DecodeAttention().to(device).requires_grad_(False)
    store = KVStore(2, 4, 64, 8, device)

    def decode(x):
        return x + attn(x, store)

    return {"fn": decode, "inputs": lambda: (torch.randn(2, 32, device=device),),
            "state": lambda: [store.k, store.v], "kind": "inference"}
