"""Decoding step that writes keys and values at a moving cursor."""
import torch
from torch import nn


class Ring(nn.Module):
    def __init__(self, slots, width):
        super().__init__()
        self.slots = slots
        self.register_buffer("k", torch.zeros(1, slots, width))
        self.register_buffer("v", torch.zeros(1, slots, width))
        self.register_buffer("cursor", torch.zeros(1, dtype=torch.long))

    def append(self, k, v):
        where = self.cursor % self.slots
        self.k.index_copy_(1, where, k)
        self.v.index_copy_(1, where, v)
        self.cursor += 1

    @property
    def visible(self):
        return torch.arange(self.slots, device=self.cursor.device) < self.cursor


class Decoder(nn.Module):
    def __init__(self, vocab=30, width=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.ring = Ring(6, width)

    def forward(self, token):
        q, k, v = self.qkv(self.embed(token)).chunk(3, -1)
        self.ring.append(k, v)
        scores = q @ self.ring.k.transpose(1, 2) / q.size(-1) ** 0.5
        scores = scores.masked_fill(~self.ring.visible, float("-inf"))
        return scores.softmax(-1) @ self.ring.v @ self.embed.weight.T


def make(device="cuda"):
    torch.manual_seed(73)
    decoder = Decoder().to(device)
    decoder.requires_grad_(False)

    def inputs():
        return (torch.randint(0, 30, (1, 1), device=device),)

    return {"fn": decoder, "inputs": inputs, "state": lambda: list(decoder.ring.buffers()), "kind": "inference"}
