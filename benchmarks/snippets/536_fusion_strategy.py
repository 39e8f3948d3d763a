"""Late fusion of two towers with an exchangeable merge operation."""
import operator

import torch
from torch import nn


class Fusion(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.left = nn.Linear(7, width)
        self.right = nn.Linear(5, width)
        self.head = nn.Linear(width, 2)
        self.merge = operator.add

    def forward(self, a, b):
        return self.head(self.merge(self.left(a), self.right(b)))


class Experiment:
    """Rotates the merge operation from request to request."""

    ARMS = (operator.add, operator.mul, torch.maximum)

    def __init__(self, model):
        self.model = model
        self.requests = 0

    def prepare(self):
        self.model.merge = self.ARMS[self.requests % len(self.ARMS)]
        self.requests += 1


def make(device="cuda"):
    torch.manual_seed(38)
    model = Fusion().to(device).eval()
    model.requires_grad_(False)
    experiment = Experiment(model)

    def inputs():
        experiment.prepare()
        return torch.randn(4, 7, device=device), torch.randn(4, 5, device=device)

    return {"fn": model, "inputs": inputs, "kind": "inference"}
