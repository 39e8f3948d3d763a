"""MLP classifier with a meter that follows the activation scale."""
import torch
from torch import nn


class ScaleMeter:
    def __init__(self):
        self.rows = {}
        self.handles = []

    def attach(self, root):
        for name, mod in root.named_modules():
            if isinstance(mod, nn.GELU):
                self.handles.append(mod.register_forward_hook(self._make(name)))
        return self

    def _make(self, name):
        def hook(mod, args, out):
            stats = torch.stack([out.mean(), out.std(), out.abs().amax()])
            self.rows[name] = stats.tolist()
        return hook


def build(width=48, depth=3):
    layers = [nn.Linear(16, width), nn.GELU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, 4))


def make(device="cuda"):
    net = build().to(device)
    meter = ScaleMeter().attach(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    ce = nn.CrossEntropyLoss()

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = ce(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return torch.randn(32, 16, device=device), torch.randint(0, 4, (32,), device=device)

    step.meter = meter
    return {"fn": step, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
