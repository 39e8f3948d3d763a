"""Regression head that predicts a mean and a variance, trained with a registered criterion."""
import torch
import torch.nn.functional as F
from torch import nn

CRITERIA = {}


def criterion(name):
    def register(fn):
        CRITERIA[name] = fn
        return fn
    return register


@criterion("mse")
def mean_only(mean, var, target):
    return F.mse_loss(mean, target)


@criterion("nll")
def with_variance(mean, var, target):
    return F.gaussian_nll_loss(mean, target, var, full=True)


class Head(nn.Module):
    def __init__(self, width=16, loss="nll"):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, width), nn.SiLU())
        self.mean = nn.Linear(width, 1)
        self.raw_var = nn.Linear(width, 1)
        self.loss = CRITERIA[loss]

    def forward(self, x, y):
        h = self.trunk(x)
        var = F.softplus(self.raw_var(h)) + 1e-4
        return self.loss(self.mean(h), var, y)


def make(device="cuda"):
    torch.manual_seed(1)
    head = Head().to(device)
    optim = torch.optim.SGD(head.parameters(), lr=0.05)

    def train_step(x, y):
        optim.zero_grad(set_to_none=True)
        loss = head(x, y)
        loss.backward()
        optim.step()
        return loss.detach()

    def inputs():
        x = torch.randn(32, 6, device=device)
        return x, x.sum(1, keepdim=True) + 0.1 * torch.randn(32, 1, device=device)

    return {"fn": train_step, "inputs": inputs, "state": lambda: list(head.parameters()), "kind": "training_step"}
