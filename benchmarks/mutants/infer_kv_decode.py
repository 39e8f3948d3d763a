"""One decode step of a small attention model: static key-value ring, position kept on the device."""
import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim, base=1000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2).float() / dim))

    def forward(self, position):
        angle = position.float() * self.inv_freq
        return angle.cos(), angle.sin()


def rotate(x, table):
    cos, sin = table
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class KeyValueRing(nn.Module):
    """Keys and values of the last `slots` tokens."""

    def __init__(self, batch, heads, slots, dim):
        super().__init__()
        self.slots = slots
        self.register_buffer("k", torch.zeros(batch, heads, slots, dim))
        self.register_buffer("v", torch.zeros(batch, heads, slots, dim))
        self.register_buffer("slot_ids", torch.arange(slots))

    def append(self, k, v, position):
        where = position % self.slots
        self.k.index_copy_(2, where, k)
        self.v.index_copy_(2, where, v)

    def read(self, position):
        return self.k, self.v, self.slot_ids <= position


class Attention(nn.Module):
    def __init__(self, dim, heads, batch, slots):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(self.head_dim)
        self.ring = KeyValueRing(batch, heads, slots, self.head_dim)
        nn.init.normal_(self.qkv.weight, std=0.25)

    def forward(self, x, position):
        b = x.shape[0]
        q, k, v = self.qkv(x).view(b, 1, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        table = self.rotary(position)
        q, k = rotate(q, table), rotate(k, table)
        self.ring.append(k, v, position)
        keys, values, seen = self.ring.read(position)
        scores = q @ keys.transpose(-1, -2) / self.head_dim**0.5
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return self.out((weights @ values).transpose(1, 2).reshape(b, 1, -1))


class Decoder(nn.Module):
    def __init__(self, batch, vocab=60, dim=32, heads=4, slots=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.norm = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads, batch, slots)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def forward(self, token):
        x = self.embed(token)
        x = x + self.attn(self.norm(x), self.position)
        x = x + self.mlp(x)
        self.position.add_(1)
        return (x @ self.embed.weight.T).squeeze(1)


def make(device="cuda"):
    torch.manual_seed(101)
    batch = 4
    model = Decoder(batch).to(device).eval()
    ring = model.attn.ring

    def inputs():
        return (torch.randint(0, 60, (batch, 1), device=device),)

    return {
        "fn": model,
        "inputs": inputs,
        "state": lambda: [ring.k, ring.v, model.position],
        "kind": "inference",
        "warmup": 3,
    }
