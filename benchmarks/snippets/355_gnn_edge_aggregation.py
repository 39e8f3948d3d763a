"""Message passing with a choice of neighbourhood aggregation."""
import torch
from torch import nn


class Conv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.msg = nn.Linear(2 * dim, dim)
        self.upd = nn.GRUCell(dim, dim)

    def node_count(self, edge, x):
        return int(edge.max()) + 1

    def degree(self, dst, n):
        return torch.bincount(dst, minlength=n).clamp(min=1)

    def aggregate(self, m, edge, x):
        n = self.node_count(edge, x)
        total = m.new_zeros(n, m.shape[1]).index_add(0, edge[1], m)
        return total / self.degree(edge[1], n).unsqueeze(1)

    def forward(self, x, edge):
        src, dst = edge
        m = torch.relu(self.msg(torch.cat([x[src], x[dst]], dim=-1)))
        return self.upd(self.aggregate(m, edge, x), x)


class StaticConv(Conv):
    """Graphs with a fixed number of nodes and edges."""

    def node_count(self, edge, x):
        return x.shape[0]

    def degree(self, dst, n):
        one = torch.ones(dst.shape[0], device=dst.device)
        return torch.zeros(n, device=dst.device).scatter_add(0, dst, one).clamp(min=1)


class GNN(nn.Module):
    def __init__(self, dim=16, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(StaticConv(dim) for _ in range(layers))
        self.read = nn.Linear(dim, 2)

    def forward(self, x, edge):
        for layer in self.layers:
            x = layer(x, edge)
        return self.read(x.mean(0))


def make(device="cuda"):
    net = GNN().to(device).eval().requires_grad_(False)

    def inputs():
        return torch.randn(30, 16, device=device), torch.randint(0, 30, (2, 90), device=device)

    return {"fn": net, "inputs": inputs, "kind": "inference"}
