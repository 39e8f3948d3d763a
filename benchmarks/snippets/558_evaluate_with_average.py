"""Scores a batch with the live weights and with their average, side by side."""
from contextlib import contextmanager

import torch
from torch import nn


class Averaged:
    def __init__(self, net):
        self.net = net
        self.mean = [p.detach().clone() * 0.5 for p in net.parameters()]

    def exchange(self):
        for p, m in zip(self.net.parameters(), self.mean):
            p.data, m.data = m.data, p.data

    @contextmanager
    def applied(self):
        self.exchange()
        try:
            yield self.net
        finally:
            self.exchange()


def make(device="cuda"):
    torch.manual_seed(63)
    net = nn.Sequential(nn.Linear(6, 12), nn.SELU(), nn.Linear(12, 3)).to(device)
    averaged = Averaged(net)

    @torch.no_grad()
    def compare(x):
        live = net(x).softmax(-1)
        with averaged.applied() as smooth:
            mean = smooth(x).softmax(-1)
        return live, mean, (live - mean).abs().amax(dim=1)

    def inputs():
        return (torch.randn(5, 6, device=device),)

    return {
        "fn": compare,
        "inputs": inputs,
        "state": lambda: [*net.parameters(), *averaged.mean],
        "kind": "inference",
    }
