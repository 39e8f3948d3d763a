"""PyG GraphSAGE over a batch of graphs with layer norm, pooled with a known number of graphs."""
# needs: torch-geometric
import torch
from torch_geometric.nn import LayerNorm, SAGEConv, global_add_pool


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = SAGEConv(8, 24, aggr="max"), SAGEConv(24, 24)
        self.norm, self.head = LayerNorm(24, mode="node"), torch.nn.Linear(24, 1)

    def forward(self, x, edges, batch):
        hidden = self.norm(self.one(x, edges)).relu()
        return self.head(global_add_pool(self.two(hidden, edges), batch, size=6)).squeeze(-1)


def make(device="cuda"):
    net = Net().to(device).train()
    optimizer = torch.optim.ASGD(net.parameters(), lr=1e-2, capturable=device != "cpu", foreach=device != "cpu")
    batch = torch.arange(6, device=device).repeat_interleave(7)

    def step(x, edges, target):
        loss = torch.nn.functional.mse_loss(net(x, edges, batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        edges = torch.randint(0, 7, (2, 90), device=device) + torch.arange(6, device=device).repeat_interleave(15) * 7
        return torch.randn(42, 8, device=device), edges, torch.randn(6, device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
