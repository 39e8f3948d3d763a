"""Mean-aggregating graph network on randomly sampled neighbourhoods."""
import random

import numpy as np
import torch
import torch.nn as nn

NODES, EDGES = 30, 90


class SageConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.nbr = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, src, dst):
        total = torch.zeros_like(x).index_add_(0, dst, x[src])
        degree = x.new_zeros(x.shape[0]).index_add_(0, dst, x.new_ones(src.shape[0]))
        return self.own(x) + self.nbr(total / degree.clamp_min(1.0)[:, None])


class Sage(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = SageConv(8, 16), SageConv(16, 3)

    def forward(self, x, edges):
        src, dst = edges.unbind(0)
        return self.c2(torch.relu(self.c1(x, src, dst)), src, dst).log_softmax(-1)


def sample_edges():
    src = [random.randrange(NODES) for _ in range(EDGES)]
    dst = np.random.randint(0, NODES, size=EDGES)
    return torch.stack([torch.tensor(src), torch.from_numpy(dst).long()])


def make(device="cuda"):
    torch.manual_seed(17)
    net = Sage().to(device)

    def infer(x, edges):
        with torch.no_grad():
            return net(x, edges)

    def inputs():
        return torch.randn(NODES, 8, device=device), sample_edges().to(device)

    return {"fn": infer, "inputs": inputs, "kind": "inference"}
