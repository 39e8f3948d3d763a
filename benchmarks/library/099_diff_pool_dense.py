"""PyG dense graph convolution with differentiable pooling."""
# needs: torch-geometric
import torch
from torch_geometric.nn import DenseGraphConv, dense_diff_pool


class Pooled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.assign = DenseGraphConv(6, 16), DenseGraphConv(6, 4)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x, adjacency):
        x, adjacency, link, entropy = dense_diff_pool(self.embed(x, adjacency).relu(), adjacency, self.assign(x, adjacency))
        return self.head(x.mean(1)), link + entropy


def make(device="cuda"):
    net = Pooled().to(device).train()
    optimizer = torch.optim.Adamax(net.parameters(), lr=2e-3, capturable=device != "cpu", foreach=device != "cpu")

    def step(x, adjacency, y):
        logits, extra = net(x, adjacency)
        loss = torch.nn.functional.cross_entropy(logits, y) + 0.1 * extra
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        links = (torch.rand(5, 12, 12, device=device) < 0.3).float()
        return torch.randn(5, 12, 6, device=device), (links + links.mT).clamp(max=1), torch.randint(0, 3, (5,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
