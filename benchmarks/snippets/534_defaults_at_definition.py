"""Contrastive loss whose constants come from a settings object."""
from types import SimpleNamespace

import torch
import torch.nn.functional as F

CFG = SimpleNamespace(temperature=0.2, margin=0.1, calls=0)


def similarity(a, b, temperature=CFG.temperature):
    return F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / temperature


class Contrast:
    def __init__(self, cfg=CFG):
        self.margin = cfg.margin

    def __call__(self, a, b):
        logits = similarity(a, b)
        eye = torch.eye(a.size(0), device=a.device)
        logits = logits - self.margin * eye
        target = torch.arange(a.size(0), device=a.device)
        return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))


def make(device="cuda"):
    contrast = Contrast()

    def loss(a, b):
        return contrast(a, b)

    def inputs():
        CFG.calls += 1
        CFG.temperature = 0.2 * 0.9 ** CFG.calls
        CFG.margin = CFG.margin + 0.05
        a = torch.randn(10, 6, device=device)
        return a, a + 0.3 * torch.randn_like(a)

    return {"fn": loss, "inputs": inputs, "kind": "inference"}
