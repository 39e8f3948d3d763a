"""cpu-tensor-work: a CPU tensor that the region changes is changed once, at capture."""

import random

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    refilled.fill_(random.random())
    return (torch.randn(4, 8, device=DEVICE),)


class HostStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.step = torch.tensor(0.0)

    def forward(self, x):
        self.step += 1  # CG106
        return self.net(x) / self.step  # CG106


class DeviceStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.register_buffer("step", torch.tensor(0.0))

    def forward(self, x):
        self.step += 1
        return self.net(x) / self.step


host_step = HostStep()
host_step.net.to(DEVICE).requires_grad_(False)
device_step = DeviceStep().to(DEVICE).requires_grad_(False)
decay = torch.ones(())
positions = torch.zeros(8, pin_memory=DEVICE == "cuda")
refilled = torch.zeros(8, pin_memory=DEVICE == "cuda")
staged = torch.zeros(8, device=DEVICE)
staged_refilled = torch.zeros(8, device=DEVICE)


def upload(host, device):
    return device.copy_(host, non_blocking=True)


def bad_step_on_the_host(x):
    return host_step(x)


def bad_decay_tensor(x):
    decay.mul_(0.9)  # CG106
    return x * decay  # CG106


def bad_positions_counted_on_the_host(x):
    positions.add_(1)  # CG106
    return x + upload(positions, staged)  # CG106


def good_step_on_the_device(x):
    return device_step(x)


def good_constant_operand(x):
    floor = torch.tensor(-1.0)
    return x.masked_fill(x > 0, floor) * torch.tensor(2.0)


def good_pinned_buffer_filled_outside(x):
    return x + upload(refilled, staged_refilled)


def good_shape_arithmetic(x):
    sizes = torch.tensor(x.shape)
    return x / sizes.prod()
