"""Local attention with a banded mask built from python lists and kept for reuse."""
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import nn


@lru_cache(maxsize=16)
def band(length, reach, device):
    rows = [[0.0 if abs(i - j) <= reach else float("-inf") for j in range(length)] for i in range(length)]
    return torch.tensor(rows, device=device)


class LocalAttention(nn.Module):
    tables = {}

    def __init__(self, width=16, heads=2, reach=2):
        super().__init__()
        self.heads, self.reach = heads, reach
        self.qkv = nn.Linear(width, 3 * width)

    def slope(self, x):
        key = (self.heads, str(x.device))
        if key not in self.tables:
            values = [2.0 ** -(i + 1) for i in range(self.heads)]
            self.tables[key] = torch.tensor(values).to(x.device).view(1, -1, 1, 1)
        return self.tables[key]

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = band(t, self.reach, str(x.device)) * self.slope(x)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(b, t, w)


def make(device="cuda"):
    torch.manual_seed(76)
    attention = LocalAttention().to(device)

    @torch.no_grad()
    def run(x):
        return attention(x)

    return {"fn": run, "inputs": lambda: (torch.randn(2, 8, 16, device=device),), "kind": "inference"}
