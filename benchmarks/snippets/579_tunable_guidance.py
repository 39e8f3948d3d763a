"""Classifier-free guidance with a strength that operators can tune in a settings file."""
import json
import tempfile
from pathlib import Path

import torch
from torch import nn


class Settings:
    def __init__(self):
        self.path = Path(tempfile.mkdtemp()) / "guidance.json"
        self.write(1.0)

    def write(self, strength):
        self.path.write_text(json.dumps({"strength": strength}))

    def __getitem__(self, key):
        return json.loads(self.path.read_text())[key]


class Guided(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.net = nn.Linear(8 + 4, 8)

    @torch.no_grad()
    def forward(self, x, cond):
        with_cond = self.net(torch.cat([x, cond], 1))
        without = self.net(torch.cat([x, torch.zeros_like(cond)], 1))
        return without + self.settings["strength"] * (with_cond - without)


def make(device="cuda"):
    torch.manual_seed(36)
    settings = Settings()
    guided = Guided(settings).to(device)
    served = [0]

    def inputs():
        served[0] += 1
        settings.write(1.0 + 0.5 * served[0])
        return torch.randn(3, 8, device=device), torch.randn(3, 4, device=device)

    return {"fn": guided, "inputs": inputs, "kind": "inference"}
