"""Denoiser conditioned on the prompt of the current request."""
import types

import torch
from torch import nn


class PromptEncoder(nn.Module):
    def __init__(self, vocab=40, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)

    def forward(self, tokens):
        return self.mix(self.emb(tokens)).tanh().mean(1)


class Conditioner:
    def __init__(self, encoder, request):
        self.encoder = encoder
        self.request = request
        self._seen = None
        self._context = None

    def context(self):
        tokens = self.request.tokens
        if tokens is not self._seen:
            self._context = self.encoder(tokens)
            self._seen = tokens
        return self._context


class Denoiser(nn.Module):
    def __init__(self, conditioner, dim=16):
        super().__init__()
        self.conditioner = conditioner
        self.inp = nn.Linear(10, dim)
        self.out = nn.Linear(dim, 10)

    def forward(self, x):
        return x - self.out(torch.nn.functional.silu(self.inp(x) * self.conditioner.context()))


def make(device="cuda"):
    request = types.SimpleNamespace(tokens=torch.randint(0, 40, (1, 6), device=device))
    encoder = PromptEncoder().to(device)
    model = Denoiser(Conditioner(encoder, request)).to(device)

    @torch.no_grad()
    def run(x):
        return model(x)

    def inputs():
        request.tokens = torch.randint(0, 40, (1, 6), device=device)
        return (torch.randn(4, 10, device=device),)

    return {"fn": run, "inputs": inputs, "kind": "inference"}
