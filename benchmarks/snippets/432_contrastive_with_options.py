"""Contrastive loss configured through small option objects."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Option:
    def __init__(self, value, active=True):
        self._value, self._active = value, active

    def __bool__(self):
        return self._active

    def __float__(self):
        return float(self._value)

    def __len__(self):
        return int(self._value)

    def __iter__(self):
        return iter(range(len(self)))


class InfoNCE(nn.Module):
    def __init__(self, temperature, smoothing, rounds):
        super().__init__()
        self.temperature = temperature
        self.smoothing = smoothing
        self.rounds = rounds
        self.head = nn.Linear(16, 16, bias=False)

    def forward(self, a, b):
        for _ in self.rounds:
            a, b = torch.tanh(self.head(a)), torch.tanh(self.head(b))
        a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
        logits = a @ b.t()
        if self.temperature:
            logits = logits / float(self.temperature)
        target = torch.arange(a.shape[0], device=a.device)
        smooth = float(self.smoothing) if self.smoothing else 0.0
        return F.cross_entropy(logits, target, label_smoothing=smooth)


def make(device="cuda"):
    torch.manual_seed(13)
    crit = InfoNCE(Option(0.1), Option(0.05, active=False), Option(2)).to(device)

    def step(a, b):
        loss = crit(a, b)
        (g,) = torch.autograd.grad(loss, [crit.head.weight])
        return loss.detach(), g

    def inputs():
        return torch.randn(12, 16, device=device), torch.randn(12, 16, device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
