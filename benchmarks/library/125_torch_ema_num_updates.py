"""torch-ema with its warm-up beside an autoencoder."""
# needs: torch-ema
import torch
from torch_ema import ExponentialMovingAverage


def make(device="cuda"):
    net = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.ELU(), torch.nn.Linear(8, 20)).to(device)
    ema = ExponentialMovingAverage(net.parameters(), decay=0.999)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)

    def step(x):
        loss = torch.nn.functional.mse_loss(net(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update()
        return loss.detach(), [shadow.clone() for shadow in ema.shadow_params]

    return {"fn": step, "inputs": lambda: (torch.randn(32, 20, device=device),), "kind": "training_step"}
