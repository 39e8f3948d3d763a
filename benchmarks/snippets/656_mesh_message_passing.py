"""Message passing on a fixed number of edges with mean and max aggregation."""
import torch
from torch import nn


def aggregate(messages, dst, num_nodes, how):
    out = messages.new_zeros(num_nodes, messages.shape[-1])
    index = dst.unsqueeze(-1).expand_as(messages)
    return out.scatter_reduce(0, index, messages, reduce=how, include_self=False)


def degree(dst, num_nodes):
    ones = torch.ones(dst.shape[0], device=dst.device)
    return torch.zeros(num_nodes, device=dst.device).index_add_(0, dst, ones)


class MeshConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.edge = nn.Linear(2 * dim, dim)
        self.node = nn.Linear(3 * dim + 1, dim)

    def forward(self, h, src, dst):
        n = h.size(0)
        m = torch.relu(self.edge(torch.cat([h[src], h[dst]], dim=-1)))
        parts = [h, aggregate(m, dst, n, "mean"), aggregate(m, dst, n, "amax")]
        parts.append(degree(dst, n).log1p().unsqueeze(-1))
        return h + self.node(torch.cat(parts, dim=-1))


class MeshNet(nn.Module):
    def __init__(self, dim=16, depth=3):
        super().__init__()
        self.convs = nn.ModuleList([MeshConv(dim) for _ in range(depth)])
        self.read = nn.Linear(dim, 1)

    @torch.no_grad()
    def forward(self, h, src, dst):
        for conv in self.convs:
            h = conv(h, src, dst)
        return self.read(h).mean()


def make(device="cuda"):
    net = MeshNet().to(device)

    def inputs():
        edge = torch.randint(0, 30, (2, 90), device=device)
        return torch.randn(30, 16, device=device), edge[0], edge[1]

    return {"fn": net, "inputs": inputs, "kind": "inference"}
