"""Training step that drops an update when any gradient is bad."""
import torch
from torch import nn


class GuardMixin:
    def healthy(self):
        return all(torch.isfinite(p.grad).all() for p in self.params())

    def guarded(self):
        if self.healthy():
            self.apply_update()


class PlainSGD:
    lr = 0.05

    def params(self):
        return [p for p in self.net.parameters() if p.grad is not None]

    @torch.no_grad()
    def apply_update(self):
        for p in self.params():
            p.sub_(p.grad, alpha=self.lr)


class Trainer(GuardMixin, PlainSGD):
    def __init__(self, net):
        self.net = net

    def __call__(self, x, y):
        self.net.zero_grad()
        loss = nn.functional.nll_loss(self.net(x).log_softmax(1), y)
        loss.backward()
        self.guarded()
        return loss.detach()


def make(device="cuda"):
    torch.manual_seed(21)
    net = nn.Sequential(nn.Linear(8, 16), nn.Hardswish(), nn.Linear(16, 4)).to(device)
    trainer = Trainer(net)

    def inputs():
        return torch.randn(10, 8, device=device), torch.randint(0, 4, (10,), device=device)

    return {"fn": trainer, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
