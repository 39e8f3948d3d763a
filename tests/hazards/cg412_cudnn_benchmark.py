"""cudnn-benchmark: the search for the fastest convolution is switched on in the region."""

import types

import torch
from torch import nn
from torch.backends import cudnn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(2, 3, 16, 16, device=DEVICE, dtype=torch.float64),)


def convolution():
    # float64: whichever algorithm the search picks, the results agree closely
    return nn.Conv2d(3, 8, 3).to(DEVICE, torch.float64).requires_grad_(False)


stem = convolution()
block = convolution()
plain = convolution()
config = types.SimpleNamespace(benchmark=False)


def bad_flag_set_in_the_step(x):
    torch.backends.cudnn.benchmark = True  # CG412
    return stem(x).relu()


def prefer_speed():
    cudnn.benchmark = True  # CG412


class Backbone(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x):
        prefer_speed()
        return self.conv(x).relu()


backbone = Backbone(block)


def bad_flag_set_by_a_helper(x):
    return backbone(x)


def bad_flag_in_a_context(x):
    with cudnn.flags(enabled=True, benchmark=True):  # CG412
        return plain(x).tanh()


def good_flag_off(x):
    torch.backends.cudnn.benchmark = False
    return stem(x).relu()


def good_other_flags(x):
    with cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        return block(x).tanh()


def good_benchmark_of_a_config(x):
    return plain(x).relu() if config.benchmark else plain(x).tanh()
