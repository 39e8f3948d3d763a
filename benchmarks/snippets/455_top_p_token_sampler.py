"""Nucleus and top-k sampling from a vocabulary projection."""
import functools

import torch
import torch.nn as nn


def keep_top_k(logits, k):
    floor = logits.topk(k, dim=-1).values[:, -1:]
    return logits.masked_fill(logits < floor, float("-inf"))


def keep_top_p(logits, p):
    ordered, order = logits.sort(dim=-1, descending=True)
    mass = ordered.softmax(-1).cumsum(-1)
    drop = (mass - ordered.softmax(-1)) > p
    drop = torch.zeros_like(drop).scatter(1, order, drop)
    return torch.where(drop, float("-inf"), logits)


class Sampler:
    def __init__(self, proj, *filters):
        self.proj, self.filters = proj, filters

    def draw(self, logits):
        gumbel = -torch.log(torch.empty_like(logits).exponential_())
        return (logits + gumbel).argmax(dim=-1)

    def __call__(self, hidden):
        logits = self.proj(hidden)
        for f in self.filters:
            logits = f(logits)
        token = self.draw(logits)
        return token, logits.log_softmax(-1).gather(1, token[:, None])


def make(device="cuda"):
    torch.manual_seed(20)
    proj = nn.Linear(24, 60).to(device).requires_grad_(False)
    sampler = Sampler(proj, functools.partial(keep_top_k, k=20), functools.partial(keep_top_p, p=0.9))
    return {"fn": sampler, "inputs": lambda: (torch.randn(8, 24, device=device),), "kind": "inference"}
