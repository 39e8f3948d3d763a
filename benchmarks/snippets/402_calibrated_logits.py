"""Post-hoc calibrated classifier head for a small image embedding."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Quantity:
    value: float
    unit: str = "nat"

    def item(self):
        return self.value

    def tolist(self):
        return [self.value]

    def cpu(self):
        return self


class CalibratedHead(nn.Module):
    def __init__(self, dim, classes, temperature):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, classes)
        self.temperature = Quantity(temperature)
        self.margin = Quantity(0.25, "logit")

    def forward(self, feats):
        logits = self.fc(self.norm(feats))
        logits = logits / self.temperature.item()
        (shift,) = self.margin.cpu().tolist()
        return (logits - shift).softmax(dim=-1)


def make(device="cuda"):
    torch.manual_seed(5)
    head = CalibratedHead(32, 7, temperature=1.7).to(device).eval()

    @torch.no_grad()
    def predict(feats):
        probs = head(feats)
        return probs, probs.amax(dim=-1)

    def inputs():
        return (torch.randn(16, 32, device=device),)

    return {"fn": predict, "inputs": inputs, "kind": "inference"}
