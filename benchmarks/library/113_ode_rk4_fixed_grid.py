"""torchdiffeq: Lotka-Volterra populations on a fixed grid by rk4, fitted to observations."""
# needs: torchdiffeq
import torch
from torchdiffeq import odeint


class Populations(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rates = torch.nn.Parameter(torch.tensor([1.0, 0.5, 0.8, 0.3]))

    def forward(self, t, y):
        prey, hunters = y.unbind(-1)
        a, b, c, d = self.rates
        return torch.stack([a * prey - b * prey * hunters, d * prey * hunters - c * hunters], -1)


def make(device="cuda"):
    model = Populations().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    times = torch.linspace(0, 2, 9, device=device)

    def fit(start, seen):
        loss = torch.nn.functional.mse_loss(odeint(model, start, times, method="rk4")[-1], seen)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": fit, "inputs": lambda: (torch.rand(6, 2, device=device) + 0.5, torch.rand(6, 2, device=device) + 0.5),
            "kind": "training_step"}
