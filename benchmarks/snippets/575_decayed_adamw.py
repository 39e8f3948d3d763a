"""AdamW fit whose learning rate follows an exponential schedule between steps."""
import torch
from torch import nn


class Fit:
    def __init__(self, device, lr=0.05, gamma=0.7):
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
        rate = torch.tensor(lr, device=device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=rate, capturable=(device == "cuda"))
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.opt, gamma=gamma)
        self.batches = 0

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.net(x), y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def between(self):
        if self.batches:
            self.schedule.step()
        self.batches += 1


def make(device="cuda"):
    torch.manual_seed(66)
    fit = Fit(device)

    def inputs():
        fit.between()
        x = torch.rand(32, 3, device=device)
        return x, torch.sin(3 * x).sum(1, keepdim=True)

    return {
        "fn": fit.step,
        "inputs": inputs,
        "state": lambda: list(fit.net.parameters()),
        "kind": "training_step",
    }
