"""Linear layer with simulated low-precision inputs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Observer(nn.Module):
    def __init__(self, limit=448.0, decay=0.9):
        super().__init__()
        self.limit, self.decay = limit, decay
        self.register_buffer("amax", torch.ones(()))

    def update(self, x):
        self.amax.mul_(self.decay).add_(x.detach().abs().amax(), alpha=1 - self.decay)

    @property
    def scale(self):
        return self.limit / max(self.amax.item(), 1e-6)


class QuantLinear(nn.Linear):
    def __init__(self, i, o):
        super().__init__(i, o)
        self.observer = Observer()

    def forward(self, x):
        self.observer.update(x)
        s = self.observer.scale
        q = (x * s).round().clamp(-448, 448) / s
        return F.linear(q, self.weight, self.bias)


def make(device="cuda"):
    torch.manual_seed(31)
    net = nn.Sequential(QuantLinear(16, 32), nn.ReLU(), QuantLinear(32, 8)).to(device)

    @torch.no_grad()
    def run(x):
        return net(x)

    def inputs():
        return (torch.randn(8, 16, device=device),)

    return {"fn": run, "inputs": inputs,
            "state": lambda: [m.observer.amax for m in (net[0], net[2])], "kind": "inference"}
