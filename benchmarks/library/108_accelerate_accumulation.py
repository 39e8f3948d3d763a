"""Accelerate with gradient accumulation over two batches."""
# needs: accelerate
import torch
from accelerate import Accelerator


def make(device="cuda"):
    accelerator = Accelerator(gradient_accumulation_steps=2, cpu=device == "cpu")
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.SiLU(), torch.nn.Linear(32, 2))
    net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))

    def step(x, y):
        with accelerator.accumulate(net):
            loss = torch.nn.functional.mse_loss(net(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(16, 8, device=device), torch.randn(16, 2, device=device)),
            "kind": "training_step"}
