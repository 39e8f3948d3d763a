"""Accelerate in bfloat16: backward, clipping and step through the accelerator."""
# needs: accelerate
# needs: torchvision
import torch
from accelerate import Accelerator
from torchvision.ops import MLP


def make(device="cuda"):
    accelerator = Accelerator(mixed_precision="bf16", cpu=device == "cpu")
    net = MLP(16, [64, 64, 5], norm_layer=torch.nn.LayerNorm, dropout=0.1).train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, capturable=device != "cpu")
    net, optimizer = accelerator.prepare(net, optimizer)

    def step(x, y):
        with accelerator.autocast():
            loss = torch.nn.functional.cross_entropy(net(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(32, 16, device=device), torch.randint(0, 5, (32,), device=device)),
            "kind": "training_step"}
