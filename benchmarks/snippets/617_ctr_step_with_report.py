"""Click-through-rate model with running metrics."""
import torch
from torch import nn
import torch.nn.functional as F


class RunningMetrics:
    def __init__(self, device):
        self.loss_sum = torch.zeros((), device=device)
        self.hits = torch.zeros((), device=device)
        self.seen = 0

    @torch.no_grad()
    def update(self, loss, logits, clicked):
        self.loss_sum += loss
        self.hits += ((logits > 0) == (clicked > 0.5)).float().mean()

    def report(self, n):
        return {"loss": self.loss_sum.item() / max(n, 1), "acc": float(self.hits) / max(n, 1)}


class CTR(nn.Module):
    def __init__(self, users=100, items=200, dim=8):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.top = nn.Sequential(nn.Linear(2 * dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, u, i):
        return self.top(torch.cat([self.user(u), self.item(i)], dim=-1)).squeeze(-1)


def make(device="cuda"):
    model = CTR().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    metrics = RunningMetrics(device)
    reports = []

    def step(u, i, clicked):
        opt.zero_grad(set_to_none=True)
        logits = model(u, i)
        loss = F.binary_cross_entropy_with_logits(logits, clicked)
        loss.backward()
        opt.step()
        metrics.update(loss.detach(), logits, clicked)
        return loss.detach()

    def inputs():
        reports.append(metrics.report(len(reports)))
        u = torch.randint(0, 100, (32,), device=device)
        i = torch.randint(0, 200, (32,), device=device)
        return u, i, torch.randint(0, 2, (32,), device=device).float()

    return {"fn": step, "inputs": inputs, "kind": "training_step",
            "state": lambda: [*model.parameters(), metrics.loss_sum, metrics.hits]}
