"""Multi-task regression with losses balanced by their size."""
import torch
from torch import nn

TASKS = ("depth", "normal", "albedo")


def balance(losses, temperature=2.0):
    sizes = list(map(torch.Tensor.item, losses))
    total = sum(s / temperature for s in sizes) + 1e-6
    return [len(sizes) * (s / temperature) / total for s in sizes]


class MultiTask(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.shared = nn.Linear(10, width)
        self.heads = nn.ModuleDict({t: nn.Linear(width, 2) for t in TASKS})

    def losses(self, x, targets):
        h = torch.relu(self.shared(x))
        return [((self.heads[t](h) - targets[:, i]) ** 2).mean() for i, t in enumerate(TASKS)]


def make(device="cuda"):
    torch.manual_seed(8)
    net = MultiTask().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)

    def step(x, targets):
        opt.zero_grad()
        parts = net.losses(x, targets)
        weights = balance(parts)
        loss = sum(w * p for w, p in zip(weights, parts))
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return torch.randn(16, 10, device=device), torch.randn(16, 3, 2, device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
