"""clock-read: the time of the capture is a constant in the graph."""

import datetime
import math
import time
from time import perf_counter as now

import torch
from torch import nn

DEVICE = "cuda"
START = time.perf_counter()


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def inputs_good_clock_as_tensor():
    return torch.randn(4, 8, device=DEVICE), torch.rand((), device=DEVICE)


class Flicker(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)

    @property
    def phase(self):
        return datetime.datetime.now().microsecond / 1e6  # CG104

    def forward(self, x):
        return self.mix(x) + self.phase


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(1, 8)
        self.body = nn.Linear(8, 8)

    def time(self, x):
        return self.embed(x.mean(-1, keepdim=True))

    def forward(self, x):
        return self.body(x) + self.time(x)


flicker = Flicker().to(DEVICE).requires_grad_(False)
denoiser = Denoiser().to(DEVICE).requires_grad_(False)


def bad_animated_wave(x):
    elapsed = time.perf_counter() - START  # CG104
    return torch.sin(x + 1000 * elapsed)


def bad_phase_property(x):
    return flicker(x)


def bad_clock_under_another_name(x):
    jitter = math.sin(1e5 * now())  # CG104
    return x.roll(1, dims=1) * jitter


def good_clock_as_tensor(x, clock):
    return torch.sin(x + 1000 * clock)


def good_unused_measurement(x):
    begin = time.perf_counter()
    y = x.square().cumsum(-1)
    elapsed = time.perf_counter() - begin
    del elapsed
    return y


def good_method_called_time(x):
    return denoiser(x)


def good_tensor_called_time(x):
    time = x.abs().sum(-1)
    return time.cos() * time.mean()
