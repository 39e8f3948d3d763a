"""grad-scaler-step: the scaler reads its overflow flag, or its scale, on the CPU."""

import torch
from torch import nn
from torch.amp import GradScaler

DEVICE = "cuda"


def inputs():
    """A batch of rows."""
    return (torch.randn(16, 8, device=DEVICE),)


model = nn.Linear(8, 8).to(DEVICE)
scaler = GradScaler("cuda", init_scale=128.0)


def scaled_backward(x):
    model.zero_grad()
    loss = model(x).square().mean()
    scaler.scale(loss).backward()
    return loss.detach()


def state():
    return [p.detach() for p in model.parameters()]


sgd = torch.optim.SGD(model.parameters(), lr=0.1)


def bad_scaled_sgd(x):
    loss = scaled_backward(x)
    scaler.step(sgd)  # CG237
    scaler.update()
    return loss


class Trainer:
    def __init__(self):
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=True)

    def update(self):
        scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(self.optimizer)  # CG237
        scaler.update()

    def fit(self, x):
        loss = scaled_backward(x)
        self.update()
        return loss


trainer = Trainer()


def bad_capturable_is_not_fused(x):
    return trainer.fit(x)


def bad_scale_as_a_number(x):
    loss = scaled_backward(x)
    return loss, model.weight.grad / scaler.get_scale()  # CG237


fused = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)


def good_fused_optimizer(x):
    loss = scaled_backward(x)
    scaler.step(fused)
    scaler.update()
    return loss


plain = torch.optim.SGD(model.parameters(), lr=0.1)
disabled = GradScaler("cuda", enabled=False)


def good_disabled_scaler(x):
    model.zero_grad()
    loss = model(x).square().mean()
    disabled.scale(loss).backward()
    disabled.step(plain)
    disabled.update()
    return loss.detach()


def good_only_the_scaled_backward(x):
    loss = scaled_backward(x)
    return loss, model.weight.grad


class Temperature:
    def get_scale(self):
        return 0.5


temperature = Temperature()


def good_own_get_scale(x):
    return model(x).detach() * temperature.get_scale()
