"""Half-precision regression with a loss scale kept and adjusted on the device."""
import torch
import torch.nn.functional as F
from torch import nn


class LossScale:
    def __init__(self, device, start=256.0, every=3, low=16.0, high=65536.0):
        self.every, self.low, self.high = every, low, high
        self.scale = torch.full((), start, device=device)
        self.good = torch.zeros((), device=device)

    def __call__(self, loss):
        return loss * self.scale

    def unscale(self, grads):
        torch._foreach_mul_(grads, self.scale.reciprocal())
        finite = torch.stack([g.isfinite().all() for g in grads]).all()
        return finite

    def adjust(self, finite):
        self.good.copy_(torch.where(finite, self.good + 1, 0.0))
        grow = (self.good >= self.every) & (self.scale < self.high)
        factor = torch.where(grow, 2.0, torch.where(finite, 1.0, 0.5))
        self.scale.mul_(factor).clamp_(self.low, self.high)
        self.good.mul_(~grow)


class Regressor(nn.Module):
    def __init__(self, features=16, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, 3)

    def forward(self, x):
        return self.out(self.body(x))


class Trainer:
    def __init__(self, device, lr=0.05):
        self.device, self.lr = device, lr
        self.net = Regressor().to(device)
        self.params = list(self.net.parameters())
        self.scaler = LossScale(device)
        self.velocity = [torch.zeros_like(p) for p in self.params]
        self.limit = torch.ones((), device=device)

    def clip_factor(self, norm):
        factor = (self.limit / (norm + 1e-6)).clamp(max=1)
        self.limit.lerp_(norm.nan_to_num(0, 0, 0), 0.3)
        return factor

    @torch.no_grad()
    def apply(self):
        grads = [p.grad for p in self.params]
        finite = self.scaler.unscale(grads)
        norm = torch.stack(torch._foreach_norm(grads)).norm()
        factor = self.clip_factor(norm)
        for p, g, v in zip(self.params, grads, self.velocity, strict=True):
            fresh = 0.9 * v + factor * g
            v.copy_(torch.where(finite, fresh, v))
            p.copy_(torch.where(finite, p - self.lr * fresh, p))
        self.scaler.adjust(finite)
        return norm

    def step(self, x, y):
        for p in self.params:
            p.grad = None
        with torch.autocast(torch.device(self.device).type, dtype=torch.float16):
            out = self.net(x)
        loss = F.smooth_l1_loss(out.float(), y)
        self.scaler(loss).backward()
        norm = self.apply()
        return loss.detach(), norm

    def state(self):
        return [*self.params, *self.velocity, self.scaler.scale]


def make(device="cuda"):
    trainer = Trainer(device)

    def inputs():
        x = torch.randn(32, 16, device=device)
        return x, 2 * x[:, :3] + 0.5 * torch.randn(32, 3, device=device)

    return {"fn": trainer.step, "inputs": inputs, "state": trainer.state, "kind": "training_step", "warmup": 3}
