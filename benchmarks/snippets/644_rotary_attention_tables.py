"""Self attention with rotary positions; the sin and cos tables are kept by length and dtype."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RotaryTables:
    def __init__(self, head_dim, base=10000.0):
        self.head_dim = head_dim
        self.base = base
        self._tables = {}

    def __call__(self, length, like):
        key = (length, like.dtype, like.device)
        try:
            return self._tables[key]
        except KeyError:
            pass
        half = torch.arange(0, self.head_dim, 2, device=like.device, dtype=torch.float32)
        freq = self.base ** (-half / self.head_dim)
        angle = torch.outer(torch.arange(length, device=like.device, dtype=torch.float32), freq)
        table = torch.cat([angle, angle], dim=-1)
        self._tables[key] = (table.cos().to(like.dtype), table.sin().to(like.dtype))
        return self._tables[key]


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


class Attention(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.rotary = RotaryTables(dim // heads)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        cos, sin = self.rotary(t, q)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


def make(device="cuda"):
    model = Attention().to(device)
    model.requires_grad_(False)
    return {"fn": model, "inputs": lambda: (torch.randn(2, 16, 64, device=device),), "kind": "inference"}
