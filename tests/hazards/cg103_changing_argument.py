"""changing-argument: a Python number given to the captured function is the one of the capture in every replay."""

import random

import torch
from torch import nn

DEVICE = "cuda"

blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(8)).to(DEVICE).requires_grad_(False)


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def inputs_bad_temperature():
    return torch.randn(4, 8, device=DEVICE), random.uniform(0.2, 3.0)


def inputs_bad_prefix_length():
    return torch.randn(4, 8, device=DEVICE), random.randint(1, 8)


def inputs_bad_layer_by_number():
    return torch.randn(4, 8, device=DEVICE), random.randrange(8), random.random() < 0.5


def inputs_good_device_temperature():
    return torch.randn(4, 8, device=DEVICE), torch.full((), random.uniform(0.2, 3.0), device=DEVICE)


def inputs_good_constant_dimension():
    return torch.randn(4, 8, device=DEVICE), -1


def bad_temperature(logits, temperature: float):
    return (logits / temperature).softmax(-1)  # CG103


def visible(cache, length):
    return cache[:, :length].sum(-1)  # CG103


def bad_prefix_length(cache, length: int):
    return visible(cache, length)


def bad_layer_by_number(x, number: int, residual: bool):
    out = blocks[number](x)  # CG103
    if residual:  # CG103
        out = out + x
    return out


def good_device_temperature(logits, temperature: torch.Tensor):
    return (logits / temperature).softmax(-1)


def good_default_epsilon(x, eps: float = 1e-6):
    return x / (x.norm() + eps)


def good_constant_dimension(x, dim: int):
    return x.softmax(dim)


def scaled(x, factor: float):
    return x * factor


def good_literal_for_helper(x):
    return scaled(x, 0.5) + scaled(x.tanh(), 2.0)


def generate(cache, steps):
    """How the functions are called outside of a graph."""
    for step in range(1, steps):
        logits = bad_temperature(cache, 1 / step)
        logits = logits + bad_prefix_length(cache, step)[:, None]
        logits = bad_layer_by_number(logits, step % len(blocks), step > 1)
        cache = good_constant_dimension(logits, -1)
    return good_default_epsilon(cache)
