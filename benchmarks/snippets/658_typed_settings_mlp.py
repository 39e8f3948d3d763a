"""MLP whose gains come from a small typed settings store."""
import torch
from torch import nn


class Setting:
    """One named value with bounds."""

    def __init__(self, value, low, high):
        if not low <= value <= high:
            raise ValueError(f"{value} outside [{low}, {high}]")
        self._value = value

    def item(self):
        return self._value

    def numpy(self):
        return [self._value]

    def tolist(self):
        return [self._value]


class Settings(dict):
    def value(self, key):
        return self[key].item()


class GainedMLP(nn.Module):
    def __init__(self, settings, width=24):
        super().__init__()
        self.settings = settings
        self.inner = nn.Linear(12, width)
        self.outer = nn.Linear(width, 4)

    def forward(self, x):
        gain = self.settings.value("gain")
        lo, = self.settings["floor"].tolist()
        h = torch.relu(self.inner(x)) * gain
        h = h.clamp(min=lo)
        return self.outer(h) + float(self.settings["bias"].item())


def make(device="cuda"):
    settings = Settings(gain=Setting(1.7, 0.0, 4.0), floor=Setting(0.1, 0.0, 1.0), bias=Setting(-0.25, -1, 1))
    model = GainedMLP(settings).to(device).eval()

    def inputs():
        return (torch.randn(16, 12, device=device),)

    return {"fn": torch.no_grad()(model.forward), "inputs": inputs, "kind": "inference"}
