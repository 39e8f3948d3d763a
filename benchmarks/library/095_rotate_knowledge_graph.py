"""PyG RotatE on random triplets of a knowledge graph: loss with drawn negatives and Adagrad."""
# needs: torch-geometric
import torch
from torch_geometric.nn import RotatE


def make(device="cuda"):
    model = RotatE(num_nodes=80, num_relations=6, hidden_channels=16, margin=6.0).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(head, relation, tail):
        loss = model.loss(head, relation, tail)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return tuple(torch.randint(0, high, (32,), device=device) for high in (80, 6, 80))

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
