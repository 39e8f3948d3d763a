"""nonfinite-check: clipping that raises on NaN reads the gradient norm on the CPU."""

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

DEVICE = "cuda"


def inputs():
    """A batch of rows."""
    return (torch.randn(16, 8, device=DEVICE),)


model = nn.Linear(8, 8).to(DEVICE)


def backward(x):
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return loss.detach()


def gradients():
    return [p.grad for p in model.parameters()]


def bad_strict_clipping(x):
    loss = backward(x)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1, error_if_nonfinite=True)  # CG230
    return loss, norm


class Trainer:
    def __init__(self):
        self.max_norm = 0.1
        self.strict = True

    def clip(self):
        return clip_grad_norm_(model.parameters(), self.max_norm, error_if_nonfinite=self.strict)  # CG230

    def step(self, x):
        loss = backward(x)
        return loss, self.clip()


strict = Trainer()


def bad_strict_trainer(x):
    return strict.step(x)


def bad_flag_by_position(x):
    loss = backward(x)
    return loss, clip_grad_norm_(model.parameters(), 0.1, 2.0, True)  # CG230


def good_default_clipping(x):
    loss = backward(x)
    norm = clip_grad_norm_(model.parameters(), 0.1)
    return loss, norm, gradients()


class LenientTrainer:
    def __init__(self):
        self.strict = False

    def step(self, x):
        loss = backward(x)
        return loss, clip_grad_norm_(model.parameters(), 0.1, error_if_nonfinite=self.strict)


lenient = LenientTrainer()


def good_lenient_trainer(x):
    return lenient.step(x), gradients()


def good_flag_on_the_device(x):
    loss = backward(x)
    norm = clip_grad_norm_(model.parameters(), 0.1, 2.0, False)
    return loss, ~torch.isfinite(norm)


def good_clipping_by_value(x):
    loss = backward(x)
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
    return loss, gradients()
