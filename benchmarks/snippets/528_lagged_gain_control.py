"""Automatic gain control driven by the level of the previous block."""
import torch
from torch import nn


class GainControl:
    def __init__(self, device, target=0.5):
        self.target = target
        self.level = torch.ones(1, pin_memory=(device == "cuda"))

    def gain(self):
        return self.target / (self.level.item() + 1e-3)

    def listen(self, block):
        self.level.copy_(block.square().mean().sqrt().view(1), non_blocking=True)


class Enhancer(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.agc = GainControl(device)
        self.smooth = nn.Conv1d(1, 1, 5, padding=2, bias=False)

    @torch.no_grad()
    def forward(self, block):
        out = self.smooth(block) * self.agc.gain()
        self.agc.listen(block)
        return out


def make(device="cuda"):
    torch.manual_seed(39)
    enhancer = Enhancer(device).to(device)
    heard = {"n": 0}

    def inputs():
        heard["n"] += 1
        return (torch.randn(2, 1, 64, device=device) * (0.2 + heard["n"]),)

    return {"fn": enhancer, "inputs": inputs, "kind": "inference"}
