"""Precise batch-norm calibration pass that averages statistics over batches."""
import torch
from torch import nn


class Calibrator:
    def __init__(self, net):
        self.net = net.train()
        self.norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
        self.batches = 0

    def _set_momentum(self):
        self.batches += 1
        for bn in self.norms:
            bn.momentum = 1.0 / self.batches

    @torch.no_grad()
    def feed(self, images):
        self._set_momentum()
        return self.net(images)


def backbone():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 4, 3, bias=False),
        nn.BatchNorm2d(4),
    )


def make(device="cuda"):
    torch.manual_seed(44)
    cal = Calibrator(backbone().to(device))

    def inputs():
        return (torch.randn(4, 3, 8, 8, device=device) * 2 + 1,)

    def state():
        return [t for bn in cal.norms for t in (bn.running_mean, bn.running_var)]

    return {"fn": cal.feed, "inputs": inputs, "state": state, "kind": "training_step"}
