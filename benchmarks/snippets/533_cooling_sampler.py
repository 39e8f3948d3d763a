"""Relaxed categorical sampler with a geometric cooling schedule."""
import torch
from torch import nn


class Cooling:
    def __init__(self, start=5.0, rate=0.8):
        self.temperature = torch.tensor(start)
        self.rate = rate

    def advance(self):
        self.temperature.mul_(self.rate)
        return self.temperature


class CodeSampler(nn.Module):
    def __init__(self, dim=6, codes=12):
        super().__init__()
        self.to_logits = nn.Linear(dim, codes)
        self.codebook = nn.Embedding(codes, dim)
        self.cooling = Cooling()

    def forward(self, z):
        logits = self.to_logits(z)
        uniform = torch.rand_like(logits).clamp_(1e-6, 1 - 1e-6)
        gumbel = -torch.log(-torch.log(uniform))
        weights = ((logits + gumbel) / self.cooling.advance()).softmax(-1)
        return weights @ self.codebook.weight


def make(device="cuda"):
    torch.manual_seed(40)
    sampler = CodeSampler().to(device)

    @torch.no_grad()
    def quantise(z):
        return sampler(z)

    def inputs():
        return (torch.randn(8, 6, device=device),)

    return {"fn": quantise, "inputs": inputs, "kind": "inference"}
