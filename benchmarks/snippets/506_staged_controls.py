"""Simulator step driven by joystick controls that arrive in a host buffer."""
import torch
from torch import nn


class Staging:
    def __init__(self, n, device):
        self.host = torch.zeros(n, pin_memory=(device == "cuda"))
        self.device_side = torch.zeros(n, device=device)

    def put(self, values):
        for i, v in enumerate(values):
            self.host[i] = v

    def fetch(self):
        self.device_side.copy_(self.host, non_blocking=True)
        return self.device_side


class Dynamics(nn.Module):
    def __init__(self, n_state=6, n_control=3):
        super().__init__()
        self.a = nn.Linear(n_state, n_state, bias=False)
        self.b = nn.Linear(n_control, n_state, bias=False)

    def forward(self, s, u):
        return torch.tanh(self.a(s) + self.b(u))


def make(device="cuda"):
    torch.manual_seed(70)
    staging = Staging(3, device)
    dynamics = Dynamics().to(device)
    dynamics.requires_grad_(False)
    ticks = [0.0]

    def advance(s):
        return dynamics(s, staging.fetch())

    def inputs():
        ticks[0] += 1.0
        staging.put([ticks[0], -0.5 * ticks[0], 1.0 / ticks[0]])
        return (torch.randn(4, 6, device=device),)

    return {"fn": advance, "inputs": inputs, "state": lambda: [staging.device_side], "kind": "inference"}
