"""PyG TopK pooling on one graph, a graph-level score."""
# needs: torch-geometric
import torch
from torch_geometric.nn import GraphConv, TopKPooling


def make(device="cuda"):
    conv, pool, head = GraphConv(6, 16).to(device), TopKPooling(16, ratio=0.5).to(device), torch.nn.Linear(16, 2).to(device)
    edges = torch.randint(0, 30, (2, 150), device=device)

    @torch.no_grad()
    def score(x):
        hidden = conv(x, edges).relu()
        hidden, *_ = pool(hidden, edges)
        return head(hidden.amax(0))

    return {"fn": score, "inputs": lambda: (torch.randn(30, 6, device=device),), "kind": "inference"}
