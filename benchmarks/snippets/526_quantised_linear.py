"""Simulated int8 linear layers with a scale derived once from the frozen weights."""
from functools import cached_property

import torch
from torch import nn


class Int8Linear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.inner = nn.Linear(n_in, n_out)
        self.inner.requires_grad_(False)

    @cached_property
    def scale(self):
        return self.inner.weight.abs().max().item() / 127.0

    @cached_property
    def codes(self):
        return torch.round(self.inner.weight / self.scale).to(torch.int8)

    def forward(self, x):
        weight = self.codes.to(x.dtype) * self.scale
        return nn.functional.linear(x, weight, self.inner.bias)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Int8Linear(8, 16), Int8Linear(16, 16), Int8Linear(16, 4)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def make(device="cuda"):
    torch.manual_seed(61)
    net = Net().to(device).eval()

    def inputs():
        return (torch.randn(6, 8, device=device),)

    return {"fn": net, "inputs": inputs, "kind": "inference"}
