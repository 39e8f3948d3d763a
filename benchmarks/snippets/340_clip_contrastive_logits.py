"""Contrastive text and image scoring with a learned temperature."""
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class LogitScale:
    log_scale: nn.Parameter
    ceiling: float = 100.0
    tags: list = field(default_factory=list)

    @property
    def value(self):
        return min(float(self.log_scale.exp()), self.ceiling)


class TwoTower(nn.Module):
    def __init__(self, d_img=64, d_txt=48, dim=32):
        super().__init__()
        self.img = nn.Sequential(nn.Linear(d_img, dim), nn.GELU(), nn.Linear(dim, dim))
        self.txt = nn.Sequential(nn.Linear(d_txt, dim), nn.GELU(), nn.Linear(dim, dim))
        self.log_scale = nn.Parameter(torch.tensor(2.6593))
        self.scale = LogitScale(self.log_scale)

    def forward(self, img, txt):
        zi = F.normalize(self.img(img), dim=-1)
        zt = F.normalize(self.txt(txt), dim=-1)
        return self.scale.value * zi @ zt.t()


def make(device="cuda"):
    model = TwoTower().to(device).eval()

    @torch.no_grad()
    def score(img, txt):
        logits = model(img, txt)
        return logits.softmax(dim=-1), logits.softmax(dim=0)

    def inputs():
        return torch.randn(16, 64, device=device), torch.randn(16, 48, device=device)

    return {"fn": score, "inputs": inputs, "kind": "inference"}
