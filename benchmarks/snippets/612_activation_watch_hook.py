"""Autoencoder with hooks that keep a readable trace of activations."""
import collections

import torch
from torch import nn


class Trace:
    def __init__(self, size=50):
        self.lines = collections.deque(maxlen=size)

    def describe(self, name, out):
        return f"{name:<10} {tuple(out.shape)} mean={out.mean():.4f}"

    def hook(self, name):
        def record(module, args, out):
            self.lines.append(self.describe(name, out))
        return record

    def attach(self, net):
        for name, child in net.named_children():
            child.register_forward_hook(self.hook(name))
        return net


class AutoEncoder(nn.Module):
    def __init__(self, dim=20, code=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(dim, 12), nn.ReLU(), nn.Linear(12, code))
        self.dec = nn.Sequential(nn.Linear(code, 12), nn.ReLU(), nn.Linear(12, dim))

    def forward(self, x):
        return self.dec(self.enc(x))


def make(device="cuda"):
    trace = Trace()
    net = trace.attach(AutoEncoder().to(device))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, weight_decay=1e-4)

    def step(x):
        opt.zero_grad(set_to_none=True)
        loss = (net(x) - x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return (torch.randn(16, 20, device=device),)

    return {"fn": step, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
