"""Single-token decoding against a preallocated key and value cache."""
import torch
from torch import nn


class KVCache:
    def __init__(self, batch, length, dim, device):
        self.k = torch.zeros(batch, length, dim, device=device)
        self.v = torch.zeros(batch, length, dim, device=device)
        self.used = torch.zeros((), dtype=torch.long, device=device)

    def push(self, k, v):
        at = (self.used % self.k.shape[1]).view(1)
        self.k.index_copy_(1, at, k)
        self.v.index_copy_(1, at, v)
        self.used.add_(1)

    def __getitem__(self, name):
        return getattr(self, name)[:, : self.used]


class Attn(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, cache):
        k, v = self.kv(x).chunk(2, dim=-1)
        cache.push(k, v)
        keys, values = cache["k"], cache["v"]
        w = (self.q(x) @ keys.transpose(1, 2) * x.shape[-1] ** -0.5).softmax(-1)
        return x + self.o(w @ values)


def make(device="cuda"):
    attn = Attn(32).to(device)
    cache = KVCache(2, 64, 32, device)

    @torch.no_grad()
    def decode(tok):
        return attn(tok, cache)

    def inputs():
        return (torch.randn(2, 1, 32, device=device),)

    return {"fn": decode, "inputs": inputs, "state": lambda: [cache.k, cache.v, cache.used], "kind": "inference"}
