import functools

import torch
from torch import nn


def batch():
    return torch.randn(32, 16, device="cuda"), torch.randn(32, 4, device="cuda")


class Trainer:
    optimizer = staticmethod(functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9))

    def __init__(self):
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4)).to("cuda")
        self.opt = self.optimizer(self.net.parameters())

    def loss(self, x, y):
        return nn.functional.mse_loss(self.net(x), y)

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss(x, y)
        loss.backward()
        self.opt.step()
        return loss.detach()


class Fused(Trainer):
    optimizer = staticmethod(functools.partial(torch.optim.AdamW, lr=1e-3, fused=True, capturable=True))


class FusedSgd(Trainer):
    optimizer = staticmethod(functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9, fused=True))


class PlainAdamW(Trainer):
    optimizer = staticmethod(functools.partial(torch.optim.AdamW, lr=1e-3))


class FusedNotCapturable(Trainer):
    optimizer = staticmethod(functools.partial(torch.optim.AdamW, lr=1e-3, fused=True))


class Bf16(Trainer):
    def loss(self, x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return nn.functional.mse_loss(self.net(x).float(), y)


class Scaled(Trainer):
    def __init__(self):
        super().__init__()
        self.scaler = torch.amp.GradScaler("cuda")

    def loss(self, x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            return nn.functional.mse_loss(self.net(x).float(), y)

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.detach()


class ScaledFused(Scaled):
    optimizer = staticmethod(functools.partial(torch.optim.AdamW, lr=1e-3, fused=True, capturable=True))

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.detach()


class Ema(Trainer):
    def __init__(self):
        super().__init__()
        self.shadow = [p.detach().clone() for p in self.net.parameters()]

    def step(self, x, y):
        loss = super().step(x, y)
        torch._foreach_lerp_(self.shadow, [p.detach() for p in self.net.parameters()], 0.1)
        return loss


class EmaWarm(Ema):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def step(self, x, y):
        loss = Trainer.step(self, x, y)
        self.seen += 1
        weight = 9.0 / (9.0 + self.seen)
        torch._foreach_lerp_(self.shadow, [p.detach() for p in self.net.parameters()], weight)
        return loss


class Scheduled(Trainer):
    def __init__(self):
        super().__init__()
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.5)

    def epoch(self):
        self.schedule.step()


def make():
    trainer = Scheduled()

    def inputs():
        trainer.opt.param_groups[0]["lr"] *= 0.5
        return batch()

    return {"fn": trainer.step, "inputs": inputs}
