"""Matrix factorisation of ratings with per-coordinate step sizes."""
import torch
import torch.nn as nn


class MF(nn.Module):
    def __init__(self, users=20, items=25, dim=6):
        super().__init__()
        self.u = nn.Parameter(torch.randn(users, dim) * 0.3)
        self.i = nn.Parameter(torch.randn(items, dim) * 0.3)
        self.bias = nn.Parameter(torch.zeros(items))

    def forward(self, user, item):
        return (self.u[user] * self.i[item]).sum(-1) + self.bias[item]


class Fit:
    def __init__(self, device):
        self.mf = MF().to(device)
        self.opt = torch.optim.Adagrad(self.mf.parameters(), lr=0.8, lr_decay=0.6, eps=1e-8)

    def objective(self, user, item, rating):
        err = self.mf(user, item) - rating
        reg = 1e-3 * (self.mf.u.square().sum() + self.mf.i.square().sum())
        return err.square().mean() + reg

    def step(self, user, item, rating):
        self.opt.zero_grad(set_to_none=True)
        loss = self.objective(user, item, rating)
        loss.backward()
        self.opt.step()
        return loss.detach()


def make(device="cuda"):
    torch.manual_seed(77)
    fit = Fit(device)

    def inputs():
        return (torch.randint(0, 20, (40,), device=device), torch.randint(0, 25, (40,), device=device),
                torch.randn(40, device=device))

    return {"fn": fit.step, "inputs": inputs,
            "state": lambda: list(fit.mf.parameters()), "kind": "training_step"}
