"""PyG GIN trained in half precision on a graph of a few hubs, with batch norm."""
# needs: torch-geometric
import torch
from torch_geometric.nn import GINConv


def make(device="cuda"):
    dtype = torch.float16 if device == "cuda" else torch.float32
    mlp = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    conv = GINConv(mlp, train_eps=True).to(device, dtype).train()
    edges = torch.stack([torch.randint(0, 4000, (40000,), device=device), torch.randint(0, 6, (40000,), device=device)])
    optimizer = torch.optim.SGD(conv.parameters(), lr=0.2)

    def step(x, y):
        scores = conv(x, edges)[:6].float()
        loss = torch.nn.functional.cross_entropy(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(4000, 8, device=device, dtype=dtype), torch.randint(0, 4, (6,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
