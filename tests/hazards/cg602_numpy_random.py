"""numpy-random: numbers of numpy.random are drawn once, at capture."""

from types import SimpleNamespace

import numpy as np
import torch
from numpy.random import default_rng
from torch import nn

DEVICE = "cuda"
generator = default_rng(3)
ANGLES = [float(angle) for angle in np.random.default_rng(11).uniform(-1.0, 1.0, size=4)]


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 16, device=DEVICE),)


def inputs_good_mixup_from_outside():
    """The weight of the mixture is drawn before each step and travels as a tensor."""
    lam = torch.full((1,), float(np.random.beta(0.4, 0.4)), device=DEVICE)
    return torch.randn(4, 16, device=DEVICE), lam


def mixup(x, alpha):
    lam = float(np.random.beta(alpha, alpha))  # CG602
    return lam * x + (1.0 - lam) * x.flip(0)


class SpecAugment(nn.Module):
    """Masks a band of frequencies that is chosen anew in every call."""

    def __init__(self, width):
        super().__init__()
        self.width = width

    @property
    def start(self):
        return int(np.random.randint(0, 12))  # CG602

    def forward(self, x):
        x = x.clone()
        begin = self.start
        x[:, begin : begin + self.width] = 0.0
        return x


class DeviceRandom:
    """A namespace of its own with the names of numpy.random."""

    def normal(self, x):
        return torch.randn_like(x)

    def beta(self, x, alpha):
        first = torch.empty_like(x).exponential_()
        return first / (first + torch.empty_like(x).exponential_()) * alpha


spec_augment = SpecAugment(4)
xp = SimpleNamespace(random=DeviceRandom())


def bad_mixup_weight(x):
    return mixup(x, 0.4)


def bad_mask_start_property(x):
    return spec_augment(x)


def bad_scale_of_generator(x):
    scale = generator.normal(1.0, 0.2)  # CG602
    return x * float(scale)


def bad_noise_level_in_closure(x):
    draw = np.random.lognormal

    def sigma():
        return float(draw(-1.2, 1.2))  # CG602

    return x + torch.ones_like(x) * sigma()


def good_beta_on_device(x):
    first = torch.empty(4, 1, device=x.device).exponential_()
    lam = first / (first + torch.empty_like(first).exponential_())
    return lam * x + (1.0 - lam) * x.flip(0)


def good_mixup_from_outside(x, lam):
    return lam * x + (1.0 - lam) * x.flip(0)


def good_numbers_of_import(x):
    for angle in ANGLES:
        x = torch.sin(x + angle)
    return x * float(np.pi)


def good_same_seed_in_every_call(x):
    rng = np.random.default_rng(0)
    weights = [float(weight) for weight in rng.uniform(size=3)]
    return x * weights[0] + x.tanh() * weights[1] + weights[2]


def good_namespace_with_this_name(x):
    return xp.random.normal(x) + xp.random.beta(x, 0.4)
