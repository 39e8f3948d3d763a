"""PyG GAT on a fixed graph with dropout and weight decay."""
# needs: torch-geometric
import torch
from torch_geometric.nn.models import GAT
from torch_geometric.utils import erdos_renyi_graph


def make(device="cuda"):
    model = GAT(12, 16, num_layers=2, out_channels=5, heads=4, dropout=0.3, v2=True, add_self_loops=False).to(device).train()
    edges = erdos_renyi_graph(60, 0.1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4, capturable=device != "cpu")

    def step(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.nll_loss(model(x, edges).log_softmax(-1), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(60, 12, device=device), torch.randint(0, 5, (60,), device=device)),
            "kind": "training_step"}
