"""Recurrent cell with a norm-preserving transition, unrolled over a short sequence."""
import torch
from torch import nn
from torch.nn.utils import parametrizations as P


def transition(width):
    layer = nn.Linear(width, width, bias=False)
    return P.orthogonal(layer)


class UnitaryCell(nn.Module):
    def __init__(self, n_in=5, width=16):
        super().__init__()
        self.drive = nn.Linear(n_in, width)
        self.carry = transition(width)
        self.bias = nn.Parameter(torch.zeros(width))

    def advance(self, h, x):
        z = self.carry(h) + self.drive(x)
        return torch.sign(z) * torch.relu(z.abs() + self.bias)

    def forward(self, xs):
        h = xs.new_zeros(xs.size(0), self.bias.numel())
        for t in range(xs.size(1)):
            h = self.advance(h, xs[:, t])
        return h


def make(device="cuda"):
    torch.manual_seed(3)
    cell = UnitaryCell().to(device)

    @torch.no_grad()
    def encode(xs):
        return cell(xs)

    return {
        "fn": encode,
        "inputs": lambda: (torch.randn(4, 6, 5, device=device),),
        "kind": "inference",
    }
