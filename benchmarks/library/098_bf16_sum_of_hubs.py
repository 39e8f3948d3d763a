"""PyG sum aggregation in bfloat16 from thousands of edges into three hubs."""
# needs: torch-geometric
import torch
from torch_geometric.nn import SimpleConv


def make(device="cuda"):
    conv = SimpleConv(aggr="sum").to(device)
    edges = torch.stack([torch.randint(0, 5000, (60000,), device=device), torch.arange(60000, device=device) % 3])

    @torch.no_grad()
    def gather(x):
        return conv(x, edges)[:3]

    return {"fn": gather, "inputs": lambda: (torch.randn(5000, 8, device=device, dtype=torch.bfloat16),), "kind": "inference"}
