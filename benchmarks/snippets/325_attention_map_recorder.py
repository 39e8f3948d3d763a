"""Cross attention that leaves its last weights around for inspection."""
import logging

import torch
from torch import nn

logger = logging.getLogger(__name__)
logger.setLevel(logging.WARNING)


class CrossAttention(nn.Module):
    def __init__(self, dim=24, ctx=18, heads=3):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(ctx, 2 * dim)
        self.o = nn.Linear(dim, dim)
        self.last_weights = None
        self.last_shape = ()

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, ctx):
        k, v = self.kv(ctx).chunk(2, dim=-1)
        q, k, v = self.split(self.q(x)), self.split(k), self.split(v)
        w = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
        self.last_weights = w.detach()
        self.last_shape = tuple(w.shape)
        logger.debug("weights %s of shape %s", w, self.last_shape)
        logger.info("largest weight: %r", self.last_weights)
        return x + self.o((w @ v).transpose(1, 2).flatten(-2))


def make(device="cuda"):
    layers = nn.ModuleList(CrossAttention() for _ in range(2)).to(device).eval()

    @torch.no_grad()
    def run(x, ctx):
        for i, layer in enumerate(layers):
            x = layer(x, ctx)
            print(f"layer {i}: {x.shape} {x.dtype} on {x.device.type}") if logger.level == 0 else None
        mean = torch.stack([m.last_weights.mean(1) for m in layers])
        return x, mean

    def inputs():
        return torch.randn(2, 7, 24, device=device), torch.randn(2, 11, 18, device=device)

    return {"fn": run, "inputs": inputs, "kind": "inference"}
