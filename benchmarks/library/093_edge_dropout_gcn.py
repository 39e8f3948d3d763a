"""PyG GCN with edges dropped at random in each step."""
# needs: torch-geometric
import torch
from torch_geometric.nn.models import GCN
from torch_geometric.utils import dropout_edge


def make(device="cuda"):
    model = GCN(10, 16, num_layers=2, out_channels=4).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    edges = torch.randint(0, 50, (2, 300), device=device)

    def step(x, y):
        kept, _ = dropout_edge(edges, p=0.3, training=model.training)
        loss = torch.nn.functional.cross_entropy(model(x, kept), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(50, 10, device=device), torch.randint(0, 4, (50,), device=device)),
            "kind": "training_step"}
