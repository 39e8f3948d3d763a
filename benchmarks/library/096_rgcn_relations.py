"""PyG relational graph convolution with typed edges."""
# needs: torch-geometric
import torch
from torch_geometric.nn import RGCNConv


def make(device="cuda"):
    net = RGCNConv(8, 12, num_relations=3, num_bases=2).to(device).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(x, edge_index, edge_type, y):
        loss = torch.nn.functional.cross_entropy(net(x, edge_index, edge_type), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return (torch.randn(40, 8, device=device), torch.randint(0, 40, (2, 160), device=device),
                torch.randint(0, 3, (160,), device=device), torch.randint(0, 12, (40,), device=device))

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
