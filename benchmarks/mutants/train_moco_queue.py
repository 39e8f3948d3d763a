"""Momentum contrast: query and key encoders, a ring of negatives that fade with their age."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


def encoder(features=24, width=48, dim=16):
    return nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, dim))


class Ring(nn.Module):
    def __init__(self, size, dim):
        super().__init__()
        self.register_buffer("keys", F.normalize(torch.randn(size, dim), dim=-1))
        self.register_buffer("cursor", torch.zeros((), dtype=torch.long))
        self.register_buffer("slots", torch.arange(size))

    def log_weight(self):
        age = (self.cursor - 1 - self.slots) % len(self.slots)
        return -0.1 * age

    def negatives(self):
        return self.keys.clone()

    @torch.no_grad()
    def push(self, keys):
        n = keys.shape[0]
        where = (self.cursor + self.slots[:n]) % len(self.slots)
        self.keys.index_copy_(0, where, keys)
        self.cursor.add_(n).remainder_(len(self.slots))


class MoCo:
    def __init__(self, device, momentum=0.8):
        self.query = encoder().to(device)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.ring = Ring(48, 16).to(device)
        self.momentum = momentum
        self.log_tau = nn.Parameter(torch.full((), -1.5, device=device))
        self.params = [*self.query.parameters(), self.log_tau]
        self.opt = torch.optim.SGD(self.params, lr=0.1, momentum=0.9, foreach=True)

    def view(self, x, width=8):
        start = torch.randint(0, x.shape[1] - width, (), device=x.device)
        at = torch.arange(x.shape[1], device=x.device)
        return x * ((at < start) | (at >= start + width)) + 0.1 * torch.randn_like(x)

    @torch.no_grad()
    def keys(self, x):
        for k, q in zip(self.key.parameters(), self.query.parameters(), strict=True):
            k.lerp_(q, 1 - self.momentum)
        return F.normalize(self.key(x), dim=-1)

    def logits(self, q, k):
        pos = (q * k).sum(-1, keepdim=True) * self.log_tau.neg().exp()
        neg = q @ self.ring.negatives().t() * self.log_tau.neg().exp() + self.ring.log_weight()
        return torch.cat([pos, neg], dim=1)

    def step(self, x):
        k = self.keys(self.view(x))
        q = F.normalize(self.query(self.view(x)), dim=-1)
        loss = -self.logits(q, k).log_softmax(-1)[:, 0].mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.ring.push(k)
        return loss.detach()

    def state(self):
        return [*self.params, *self.key.parameters()]


def make(device="cuda"):
    moco = MoCo(device)

    def inputs():
        return (torch.randn(8, 24, device=device),)

    return {"fn": moco.step, "inputs": inputs, "state": moco.state, "kind": "training_step", "warmup": 3}
