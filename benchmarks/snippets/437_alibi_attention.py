"""Self-attention with ALiBi slopes kept per sequence length."""
import math

import torch
import torch.nn as nn

_BIAS = {}


def alibi(heads, length, device):
    key = (heads, length, str(device))
    if key not in _BIAS:
        slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)], device=device)
        pos = torch.tensor(list(range(length)), device=device, dtype=torch.float32)
        dist = (pos[None, :] - pos[:, None]).clamp(max=0)
        _BIAS[key] = slopes[:, None, None] * dist
    return _BIAS[key]


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        att = att + alibi(self.heads, n, x.device)
        causal = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        att = att.masked_fill(causal, float("-inf")).softmax(-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, n, d))


def make(device="cuda"):
    torch.manual_seed(4)
    layer = Attention(32, 4).to(device).requires_grad_(False)

    def inputs():
        return (torch.randn(2, 10, 32, device=device),)

    return {"fn": layer, "inputs": inputs, "kind": "inference"}
