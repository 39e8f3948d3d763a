"""Hand-written selective state-space step with an update gate; everything it carries is changed in place."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Pace:
    """Slow swing of the step size, driven by the step count on the device."""

    def __init__(self, device, period=20):
        self.omega = 2 * math.pi / period
        self.t = torch.zeros((), device=device)

    def __call__(self):
        self.t.add_(1)
        return 1 + 0.6 * torch.sin(self.omega * self.t)


class Average:
    """Exponential mean with bias correction."""

    def __init__(self, width, device, beta=0.97):
        self.beta = beta
        self.mean = torch.zeros(width, device=device)
        self.weight = torch.zeros((), device=device)

    def __call__(self, value):
        self.mean.lerp_(value, 1 - self.beta)
        self.weight.mul_(self.beta).add_(1 - self.beta)
        return self.mean / self.weight


class SelectiveCell(nn.Module):
    def __init__(self, inp, width, order):
        super().__init__()
        self.lift = nn.Linear(inp, width)
        self.dt = nn.Linear(inp, width)
        self.gate = nn.Linear(inp, width)
        self.bc = nn.Linear(inp, 2 * order)
        self.log_a = nn.Parameter(torch.linspace(-2.0, 0.5, order).repeat(width, 1))

    def forward(self, x, h, pace):
        u, gate = self.lift(x), torch.sigmoid(self.gate(x))
        b, c = self.bc(x).chunk(2, dim=-1)
        dt = 0.3 * F.softplus(self.dt(x)) * pace
        decay = torch.exp(-dt.unsqueeze(-1) * self.log_a.exp())
        drive = (dt * u).unsqueeze(-1) * b.unsqueeze(1)
        return decay, drive, gate, c


class Tracker:
    def __init__(self, cell, batch, width, order, device):
        self.cell = cell
        self.carry = {"h": torch.zeros(batch, width, order, device=device)}
        self.pace = Pace(device)
        self.average = Average(width, device)
        self.batch, self.width = batch, width

    @torch.no_grad()
    def __call__(self, x, restart):
        h = self.carry["h"]
        h.mul_(1 - restart.view(-1, 1, 1))
        decay, drive, gate, c = self.cell(x, h, self.pace())
        h.mul_(decay).add_(drive)
        y = gate * (h * c.unsqueeze(1)).sum(-1)
        usual = self.average(y.mean(0))
        return y, y - usual


def make(device="cuda"):
    torch.manual_seed(108)
    batch, inp, width, order = 6, 10, 24, 8
    cell = SelectiveCell(inp, width, order).to(device)
    tracker = Tracker(cell, batch, width, order, device)

    def inputs():
        restart = (torch.rand(batch, device=device) < 0.02).float()
        return 1.5 * torch.randn(batch, inp, device=device) + 0.5, restart

    return {
        "fn": tracker,
        "inputs": inputs,
        "state": lambda: [tracker.carry["h"], tracker.average.mean],
        "kind": "inference",
        "warmup": 3,
    }
