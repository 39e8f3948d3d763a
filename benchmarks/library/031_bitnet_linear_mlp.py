"""Ternary BitNet linear layers in an MLP, quantised in every forward."""
# needs: transformers
import torch
from transformers.integrations.bitnet import AutoBitLinear


def make(device="cuda"):
    mlp = torch.nn.Sequential(AutoBitLinear(32, 64, bias=False, online_quant=True), torch.nn.SiLU(),
                              AutoBitLinear(64, 10, bias=False, online_quant=True)).to(device)
    optimizer = torch.optim.SGD(mlp.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(mlp(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(16, 32, device=device), torch.randint(0, 10, (16,), device=device)),
            "kind": "training_step"}
