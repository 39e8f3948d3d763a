"""Click-through model with hashed features and a per-coordinate optimizer."""
import torch
from torch import nn


class ClickModel(nn.Module):
    def __init__(self, buckets=64, fields=5, width=4):
        super().__init__()
        self.linear = nn.Embedding(buckets, 1)
        self.factors = nn.Embedding(buckets, width)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, ids):
        f = self.factors(ids)
        cross = 0.5 * (f.sum(1) ** 2 - (f ** 2).sum(1)).sum(1)
        return self.bias + self.linear(ids).sum(dim=(1, 2)) + cross


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.5, "lr_decay": 0.3}),
}


def make_optimizer(name, params):
    cls, kw = OPTIMIZERS[name]
    return cls(params, **kw)


def make(device="cuda"):
    torch.manual_seed(45)
    model = ClickModel().to(device)
    opt = make_optimizer("adagrad", model.parameters())

    def step(ids, click):
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(ids), click)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return torch.randint(0, 64, (32, 5), device=device), torch.randint(0, 2, (32,), device=device).float()

    return {"fn": step, "inputs": inputs, "state": lambda: list(model.parameters()), "kind": "training_step"}
