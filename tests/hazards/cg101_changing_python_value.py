"""changing-python-value: a number that the captured step itself moves on is a constant in the graph."""

import math

import torch
from torch import nn

DEVICE = "cuda"
WARMUP_STEPS = 10
updates_done = 0


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


class BiasCorrectedMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.t = 0

    def forward(self, x):
        self.t += 1  # CG101
        self.mean.lerp_(x.mean(0), 0.1)
        return self.mean / (1 - 0.9**self.t)  # CG101


class DeviceCorrectedMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("t", torch.zeros(()))

    def forward(self, x):
        self.t += 1
        self.mean.lerp_(x.mean(0), 0.1)
        return self.mean / (1 - 0.9**self.t)


class Attention:
    def __call__(self, x):
        self.scale = 1 / math.sqrt(x.size(-1))
        return (x @ x.T).softmax(-1) * self.scale


corrected = BiasCorrectedMean().to(DEVICE)
device_corrected = DeviceCorrectedMean().to(DEVICE)
attention = Attention()
turn = {"actor": True}


def warmed_up(loss):
    global updates_done
    updates_done += 1  # CG101
    return loss * min(1.0, updates_done / WARMUP_STEPS)  # CG101


def every_other_call(fn):
    calls = 0

    def wrapper(x):
        nonlocal calls
        calls += 1  # CG101
        return fn(x) if calls % 2 else x  # CG101

    return wrapper


def bad_bias_correction(x):
    return corrected(x)


def bad_warmup_in_helper(x):
    return warmed_up(x.square().mean())


@every_other_call
def bad_lazy_regularizer(x):
    return x * 3


def bad_alternating_players(x):
    turn["actor"] = not turn["actor"]  # CG101
    if turn["actor"]:  # CG101
        return x.tanh()
    return x.exp()


def good_device_counter(x):
    return device_corrected(x)


def good_number_set_before_it_is_read(x):
    return attention(x)


def good_local_count(x):
    layers = 0
    for each in (torch.tanh, torch.sigmoid, torch.exp):
        x = each(x)
        layers += 1
    return x / layers


def good_constant_ramp(x):
    return x * min(1.0, 3 / WARMUP_STEPS)
