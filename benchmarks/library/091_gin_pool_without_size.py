"""PyG GIN over a batch of graphs, pooled by their batch vector."""
# needs: torch-geometric
import torch
from torch_geometric.nn import global_mean_pool
from torch_geometric.nn.models import GIN


def make(device="cuda"):
    model = GIN(8, 24, num_layers=2, jk="cat").to(device).eval()
    head = torch.nn.Linear(24, 3).to(device)

    @torch.no_grad()
    def classify(x, edge_index, batch):
        pooled = global_mean_pool(model(x, edge_index), batch)
        return head(pooled).softmax(-1)

    def inputs():
        edges = torch.randint(0, 10, (2, 120), device=device) + torch.arange(4, device=device).repeat_interleave(30) * 10
        return torch.randn(40, 8, device=device), edges, torch.arange(4, device=device).repeat_interleave(10)

    return {"fn": classify, "inputs": inputs, "kind": "inference"}
