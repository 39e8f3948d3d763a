"""torchdiffeq: a neural ODE by dopri5."""
# needs: torchdiffeq
import torch
from torchdiffeq import odeint


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))

    def forward(self, t, y):
        return self.net(y**3)


def make(device="cuda"):
    field = Field().to(device).eval()
    times = torch.linspace(0, 1, 5, device=device)

    @torch.no_grad()
    def solve(start):
        return odeint(field, start, times, rtol=1e-3, atol=1e-4, method="dopri5")

    return {"fn": solve, "inputs": lambda: (torch.randn(8, 2, device=device),), "kind": "inference"}
