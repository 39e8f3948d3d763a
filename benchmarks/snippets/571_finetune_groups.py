"""Fine-tuning step with separate optimizer settings for body and head."""
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        return self.head(self.body(x))


SAVED_HEAD_GROUP = {"lr": 3e-3, "weight_decay": 0.0, "capturable": False}


def build_optimizer(net, device):
    body = {"params": list(net.body.parameters()), "lr": 3e-4}
    head = dict(SAVED_HEAD_GROUP, params=list(net.head.parameters()))
    return torch.optim.AdamW([body, head], capturable=(device == "cuda"))


class Tuner:
    def __init__(self, device):
        self.net = Classifier().to(device)
        self.opt = build_optimizer(self.net, device)

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        self.opt.step()
        return loss.detach()


def make(device="cuda"):
    torch.manual_seed(13)
    tuner = Tuner(device)

    def inputs():
        return torch.randn(16, 12, device=device), torch.randint(0, 5, (16,), device=device)

    return {
        "fn": tuner.step,
        "inputs": inputs,
        "state": lambda: list(tuner.net.parameters()),
        "kind": "training_step",
    }
