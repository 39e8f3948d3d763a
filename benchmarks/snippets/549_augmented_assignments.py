"""Signal tracker and tiny optimizer written with augmented assignments."""
import torch
from torch import nn


class Tracker:
    def __init__(self, n, device):
        self.level = torch.zeros(n, device=device)
        self.power = torch.ones(n, device=device)

    def follow(self, x):
        self.level *= 0.9
        self.level += 0.1 * x.mean(0)
        self.power *= 0.9
        self.power += 0.1 * x.var(0)

    def whiten(self, x):
        return (x - self.level) / (self.power + 1e-5).sqrt()


def descend(module, lr):
    for p in module.parameters():
        p.data -= lr * p.grad
        p.grad = None


def make(device="cuda"):
    torch.manual_seed(64)
    tracker = Tracker(5, device)
    net = nn.Linear(5, 1).to(device)

    def step(x, y):
        with torch.no_grad():
            tracker.follow(x)
        loss = nn.functional.mse_loss(net(tracker.whiten(x)).squeeze(1), y)
        loss.backward()
        descend(net, lr=0.1)
        return loss.detach()

    def inputs():
        x = 3 * torch.randn(16, 5, device=device) + 1
        return x, x.sum(1)

    def state():
        return [tracker.level, tracker.power, net.weight, net.bias]

    return {"fn": step, "inputs": inputs, "state": state, "kind": "training_step"}
