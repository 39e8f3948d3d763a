"""Mixed precision style update with a guard object that looks for overflow."""
import torch
from torch import nn


class OverflowGuard:
    def __init__(self, params):
        self.params = list(params)
        self.skipped = 0

    @property
    def flags(self):
        return torch.stack([p.grad.isfinite().all() for p in self.params if p.grad is not None])

    def __bool__(self):
        return not bool(self.flags.all())


class LossScale:
    def __init__(self, value):
        self.value = value

    def __mul__(self, loss):
        return loss * self.value

    def unscale(self, params):
        for p in params:
            if p.grad is not None:
                p.grad.div_(self.value)


def make(device="cuda"):
    net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1)).to(device)
    params = list(net.parameters())
    scale = LossScale(1024.0)
    overflow = OverflowGuard(params)
    opt = torch.optim.SGD(params, lr=0.01)

    def step(x, y):
        opt.zero_grad()
        loss = (net(x).squeeze(-1) - y).square().mean()
        (scale * loss).backward()
        if overflow:
            overflow.skipped += 1
        else:
            scale.unscale(params)
            opt.step()
        return loss.detach()

    def inputs():
        return torch.randn(16, 10, device=device), torch.randn(16, device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: params, "kind": "training_step"}
