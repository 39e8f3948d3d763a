"""Segmentation training with an optimizer built from a config entry."""
import functools
from dataclasses import dataclass

import torch
from torch import nn

OPTIMIZERS = {
    "sgd": functools.partial(torch.optim.SGD, momentum=0.9),
    "nadam": functools.partial(torch.optim.NAdam, betas=(0.9, 0.99)),
    "adamw": functools.partial(torch.optim.AdamW, weight_decay=0.05),
}


@dataclass
class TrainConfig:
    optimizer: str = "nadam"
    lr: float = 2e-3
    width: int = 8


def build(cfg, device):
    net = nn.Sequential(
        nn.Conv2d(1, cfg.width, 3, padding=1), nn.BatchNorm2d(cfg.width), nn.ReLU(),
        nn.Conv2d(cfg.width, 3, 1),
    ).to(device)
    opt = OPTIMIZERS[cfg.optimizer](net.parameters(), lr=cfg.lr)
    return net, opt


class Engine:
    def __init__(self, cfg, device):
        self.net, self.opt = build(cfg, device)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def optimize(self, loss):
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()

    def train_batch(self, img, mask):
        loss = self.criterion(self.net(img), mask)
        self.optimize(loss)
        return loss.detach()


def make(device="cuda"):
    engine = Engine(TrainConfig(), device)

    def inputs():
        return torch.randn(2, 1, 16, 16, device=device), torch.randint(0, 3, (2, 16, 16), device=device)

    return {"fn": engine.train_batch, "inputs": inputs, "kind": "training_step",
            "state": lambda: list(engine.net.parameters())}
