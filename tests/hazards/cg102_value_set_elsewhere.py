"""value-set-elsewhere: other code changes a Python value between replays, and the graph keeps the one of the capture."""

import random

import torch
from torch import nn

DEVICE = "cuda"
EPS = 1e-6
kl_weight = 1.0
config = {"guidance": 2.0, "gain": 3.0}


class Sampler(nn.Module):
    def __init__(self, temperature=1.0):
        super().__init__()
        self.proj = nn.Linear(8, 8)
        self.bias_scale = 0.5
        self.temperature = temperature
        self.register_buffer("sharpness", torch.ones(()))

    def set_temperature(self, value):
        self.temperature = value
        self.sharpness.fill_(1 / value)

    def forward(self, x):
        return (self.proj(x) / self.temperature).softmax(-1)  # CG102

    def sharpened(self, x):
        return (self.proj(x) * self.sharpness + self.bias_scale).softmax(-1)


class Probe:
    def __init__(self):
        self.bias_scale = 0.0

    def widen(self):
        self.bias_scale += 0.1


sampler = Sampler().to(DEVICE).requires_grad_(False)
probe = Probe()


def on_epoch_end(value):
    global kl_weight
    kl_weight = value


def make_penalty():
    strength = 0.1

    def penalty(x):
        return strength * x.square().sum()  # CG102

    def strengthen(value):
        nonlocal strength
        strength = value

    return penalty, strengthen


penalty, strengthen = make_penalty()


def inputs():
    """The trainer's callbacks run between two steps."""
    value = random.uniform(0.2, 3.0)
    sampler.set_temperature(value)
    on_epoch_end(value)
    strengthen(value)
    config["guidance"] = value
    probe.widen()
    return (torch.randn(4, 8, device=DEVICE),)


def bad_temperature_attribute(x):
    return sampler(x)


def bad_global_weight(x):
    return x.square().mean() * kl_weight  # CG102


def bad_config_entry(x):
    if config["guidance"] > 1.5:  # CG102
        return x.tanh()
    return x * config["guidance"]  # CG102


def bad_closure_strength(x):
    return x.mean() + penalty(x)


def good_filled_buffer(x):
    return sampler.sharpened(x)


def good_entry_that_nobody_changes(x):
    return x * config["gain"]


def good_constant(x):
    return x / (x.norm() + EPS)


def good_local_of_the_same_name(x):
    kl_weight = 0.3
    return x.square().mean() * kl_weight
