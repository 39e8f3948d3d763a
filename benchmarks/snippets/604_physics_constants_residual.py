"""Residual of a damped oscillator for a physics-informed network."""
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass(frozen=True)
class Constants:
    mass: torch.Tensor = field(default_factory=lambda: torch.tensor(1.3))
    damping: torch.Tensor = field(default_factory=lambda: torch.tensor(0.2))
    stiffness: torch.Tensor = field(default_factory=lambda: torch.tensor(4.0))


class Surrogate(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, t):
        return self.net(t)


def derivative(y, t):
    return torch.autograd.grad(y.sum(), t, create_graph=True)[0]


def residual(model, t, c):
    t = t.detach().requires_grad_()
    y = model(t)
    dy = derivative(y, t)
    ddy = derivative(dy, t)
    return ddy * c.mass + dy * c.damping + y * c.stiffness


def make(device="cuda"):
    model = Surrogate().to(device)
    constants = Constants()

    def step(t):
        loss = residual(model, t, constants).square().mean()
        grads = torch.autograd.grad(loss, tuple(model.parameters()), allow_unused=True)
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads):
                if g is not None:
                    p.add_(g, alpha=-1e-3)
        return loss.detach()

    def inputs():
        return (torch.rand(32, 1, device=device) * 6.0,)

    return {"fn": step, "inputs": inputs, "state": lambda: list(model.parameters()), "kind": "training_step"}
