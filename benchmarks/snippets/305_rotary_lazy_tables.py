"""Rotary attention block that looks its tables up by length."""
import torch
import torch.nn.functional as F
from torch import nn

_TABLES = {}


def rotary(length, dim, device):
    key = (length, dim, str(device))
    if key not in _TABLES:
        inv = [10000.0 ** (-2 * i / dim) for i in range(dim // 2)]
        freq = torch.tensor(inv, device=device)
        angle = torch.arange(length, device=device)[:, None] * freq[None]
        _TABLES[key] = (angle.cos(), angle.sin())
    return _TABLES[key]


def rotate(x):
    cos, sin = rotary(x.shape[-2], x.shape[-1], x.device)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


class Block(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self._mask = None

    def mask(self, t, device):
        if self._mask is None or self._mask.shape[0] != t:
            rows = [[0.0 if j <= i else float("-inf") for j in range(t)] for i in range(t)]
            self._mask = torch.tensor(rows).to(device)
        return self._mask

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, attn_mask=self.mask(t, x.device))
        return x + self.out(y.transpose(1, 2).reshape(b, t, d))


def make(device="cuda"):
    block = Block().to(device).eval().requires_grad_(False)
    return {"fn": block, "inputs": lambda: (torch.randn(2, 20, 32, device=device),), "kind": "inference"}
