"""Tabular regressor trained with AdamW and a cosine learning rate."""
import math

import torch
import torch.nn as nn


class Cosine:
    def __init__(self, optimizer, base, total):
        self.optimizer, self.base, self.total, self.n = optimizer, base, total, 0

    def advance(self):
        self.n += 1
        lr = self.base * 0.5 * (1 + math.cos(math.pi * min(self.n / self.total, 1.0)))
        for group in self.optimizer.param_groups:
            group["lr"].fill_(lr)


def make(device="cuda"):
    torch.manual_seed(7)
    net = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 1)).to(device)
    lr = torch.tensor(1e-2, device=device)
    opt = torch.optim.AdamW(
        net.parameters(), lr=lr, weight_decay=0.01, foreach=False, capturable=device == "cuda"
    )
    sched = Cosine(opt, 1e-2, 20)
    huber = nn.HuberLoss(delta=0.5)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        pred = net(x).squeeze(-1)
        loss = huber(pred, y)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        sched.advance()
        x = torch.randn(32, 10, device=device)
        return x, x[:, 0] * 2 - x[:, 3]

    return {"fn": step, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
