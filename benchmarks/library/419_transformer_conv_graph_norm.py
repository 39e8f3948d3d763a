"""PyG TransformerConv with edge features, GraphNorm and softmax pooling, all with the number of graphs given."""
# needs: torch-geometric
import torch
from torch_geometric.nn import GraphNorm, TransformerConv
from torch_geometric.nn.aggr import SoftmaxAggregation


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = TransformerConv(8, 8, heads=3, edge_dim=4, beta=True)
        self.two, self.norm = TransformerConv(24, 24, edge_dim=4), GraphNorm(24)
        self.pool, self.head = SoftmaxAggregation(learn=True), torch.nn.Linear(24, 2)

    def forward(self, x, edges, features, batch):
        hidden = self.norm(self.one(x, edges, features), batch, batch_size=5).relu()
        return self.head(self.pool(self.two(hidden, edges, features), batch, dim_size=5))


def make(device="cuda"):
    net = Net().to(device).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    batch = torch.arange(5, device=device).repeat_interleave(8)

    def step(x, edges, features, y):
        loss = torch.nn.functional.cross_entropy(net(x, edges, features, batch), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        edges = torch.randint(0, 8, (2, 100), device=device) + torch.arange(5, device=device).repeat_interleave(20) * 8
        x, features = torch.randn(40, 8, device=device), torch.randn(100, 4, device=device)
        return x, edges, features, torch.randint(0, 2, (5,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
