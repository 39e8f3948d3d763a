"""Lightning Fabric: backward and gradient clipping through Fabric."""
# needs: lightning
import torch
from lightning.fabric import Fabric


def make(device="cuda"):
    fabric = Fabric(accelerator="cpu" if device == "cpu" else "cuda", devices=1)
    net = torch.nn.Sequential(torch.nn.Linear(12, 48), torch.nn.ReLU(), torch.nn.Linear(48, 3))
    net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
    net.train()

    def step(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        fabric.backward(loss)
        fabric.clip_gradients(net, optimizer, max_norm=1.0)
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(24, 12, device=device), torch.randint(0, 3, (24,), device=device)),
            "kind": "training_step"}
