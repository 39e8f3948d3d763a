"""Two-layer graph convolution written with scatter helpers."""
from typing import Optional

import torch
from torch import Tensor, nn


def num_nodes_of(index: Tensor, num_nodes: Optional[int] = None) -> int:
    return int(index.max()) + 1 if num_nodes is None else num_nodes


def degree(index: Tensor, num_nodes: Optional[int] = None) -> Tensor:
    n = num_nodes_of(index, num_nodes)
    return index.new_zeros(n, dtype=torch.float32).scatter_add_(0, index, torch.ones_like(index, dtype=torch.float32))


class GraphConv(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.lin = nn.Linear(n_in, n_out)

    def forward(self, x, edges):
        src, dst = edges
        norm = degree(dst).clamp_min(1.0).rsqrt()
        message = self.lin(x)[src] * norm[src].unsqueeze(1) * norm[dst].unsqueeze(1)
        return torch.zeros_like(message[: x.size(0)]).index_add_(0, dst, message)


def make(device="cuda"):
    torch.manual_seed(18)
    first, second = GraphConv(6, 8).to(device), GraphConv(8, 3).to(device)

    @torch.no_grad()
    def forward(x, edges):
        return second(torch.relu(first(x, edges)), edges)

    def inputs():
        loops = torch.arange(10, device=device)
        edges = torch.randint(0, 10, (2, 30), device=device)
        return torch.randn(10, 6, device=device), torch.cat([edges, loops.repeat(2, 1)], dim=1)

    return {"fn": forward, "inputs": inputs, "kind": "inference"}
