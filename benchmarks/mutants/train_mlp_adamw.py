"""Tabular classifier: AdamW with a cosine cycle and clipping to a running gradient norm."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


class Classifier(nn.Module):
    def __init__(self, features=20, width=48, depth=2, classes=6, drop=0.3):
        super().__init__()
        self.stem = nn.Linear(features, width)
        self.blocks = nn.ModuleList(Block(width, drop) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


class Trainer:
    def __init__(self, net, device, base_lr=1e-2, period=20):
        self.net = net
        self.base_lr = base_lr
        self.omega = 2 * math.pi / period
        self.params = list(net.parameters())
        self.tick = torch.zeros((), device=device)
        self.limit = torch.ones((), device=device)
        rate = torch.full((), base_lr, device=device)
        self.opt = torch.optim.AdamW(self.params, lr=rate, weight_decay=0.05, fused=True, capturable=True)

    @property
    def rate(self):
        return self.opt.param_groups[0]["lr"]

    @torch.no_grad()
    def schedule(self):
        self.tick.add_(1)
        self.rate.copy_(self.base_lr * (0.55 + 0.45 * torch.cos(self.omega * self.tick)))

    @torch.no_grad()
    def clip(self):
        grads = [p.grad for p in self.params]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        self.limit.lerp_(norm, 0.1)
        factor = (self.limit / (norm + 1e-6)).clamp(max=1)
        torch._foreach_mul_(grads, factor)
        return factor

    def step(self, x, y):
        self.schedule()
        self.opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.net(x), y, label_smoothing=0.05)
        loss.backward()
        factor = self.clip()
        self.opt.step()
        return loss.detach(), factor

    def state(self):
        return [*self.params, self.limit]


def make(device="cuda"):
    net = Classifier().to(device).train()
    trainer = Trainer(net, device)

    def inputs():
        return torch.randn(32, 20, device=device), torch.randint(0, 6, (32,), device=device)

    return {"fn": trainer.step, "inputs": inputs, "state": trainer.state, "kind": "training_step", "warmup": 3}
