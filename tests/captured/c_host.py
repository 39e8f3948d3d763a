"""A training loop whose helpers run on the host, or read gradients that the loop makes anew for each step."""

import math
import sys

import torch
from torch import nn


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n


class EMA:
    def __init__(self, model):
        self.shadow = [weight.detach().clone() for weight in model.parameters()]

    def update(self, parameters):
        torch._foreach_lerp_(self.shadow, [weight.detach() for weight in parameters], 0.1)


def get_lr(step):
    return 0.1 * 0.5 * (1 + math.cos(step / 40 * math.pi))


def announce(name):
    return f"training {name}"


def main():
    torch.manual_seed(0)
    model, meter = nn.Linear(8, 4).cuda(), AverageMeter()
    ema = EMA(model)
    kind = torch.optim.Adam if "--adam" in sys.argv else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=0.1)
    for step in range(24):
        announce("linear")
        optimizer.param_groups[0]["lr"] = get_lr(step)
        loss = model(torch.randn(16, 8, device="cuda")).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        ema.update(model.parameters())
        meter.update(float(loss))


if __name__ == "__main__":
    main()
