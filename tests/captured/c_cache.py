"""Constants that the first call of each length uploads, and that later calls find in a dict or behind lru_cache."""

import argparse
import functools
import math

import torch
from torch import nn

TABLE = {}


class Encoded(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.lin = nn.Linear(width, width)
        self.tables = {}

    def positions(self, length, device):
        if length not in self.tables:
            self.tables[length] = torch.tensor([[math.sin(n)] for n in range(length)]).to(device)
        return self.tables[length]

    def forward(self, x):
        return self.lin(x) + self.positions(x.shape[0], x.device)


def from_global(x):
    key = x.shape[0], x.device
    if key not in TABLE:
        TABLE[key] = torch.tensor([[math.cos(n)] for n in range(x.shape[0])]).to(x.device)
    return torch.tanh(x) * TABLE[key]


@functools.lru_cache(maxsize=None)
def kept(length):
    return torch.tensor([[math.cos(n)] for n in range(length)]).cuda()


def from_lru(x):
    return torch.tanh(x) * kept(x.shape[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lengths", type=int, nargs="+", default=[16])
    args = parser.parse_args()
    model = Encoded().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for number in range(24):
        x = torch.randn(args.lengths[number % len(args.lengths)], 8, device="cuda")
        loss = (model(x) + from_global(x) + from_lru(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
