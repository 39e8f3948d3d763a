"""python-random: numbers of Python's random module are drawn once, at capture."""

import random
from random import gauss as normal

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 16, device=DEVICE),)


def inputs_good_factor_from_outside():
    """The factor is drawn before each step and travels as a tensor."""
    return torch.randn(4, 16, device=DEVICE), torch.full((), random.uniform(0.8, 1.2), device=DEVICE)


def brightness(images, strength):
    return images * random.uniform(1.0 - strength, 1.0 + strength)  # CG601


class LayerDrop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            if random.random() < 0.5:  # CG601
                continue
            x = x + layer(x).tanh()
        return x.relu()


class RandomCrop:
    def __init__(self, size):
        self.size = size
        self.rng = random.Random(5)

    def __call__(self, x):
        start = self.rng.randrange(x.shape[-1] - self.size)  # CG601
        return x[:, start : start + self.size] * 2.0


class Shuffled(nn.Module):
    """The order is drawn once, when the model is built."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.order = random.sample(range(4), 4)

    def forward(self, x):
        for index in self.order:
            x = self.layers[index](x).relu()
        return x


class DeviceNoise:
    def uniform(self, x, low, high):
        return torch.empty_like(x).uniform_(low, high)


layer_drop = LayerDrop().to(DEVICE).requires_grad_(False)
shuffled = Shuffled().to(DEVICE).requires_grad_(False)
crop = RandomCrop(6)
noise = DeviceNoise()


def bad_layer_drop(x):
    return layer_drop(x)


def bad_brightness_helper(x):
    return brightness(x, 0.4).sigmoid()


def bad_crop_with_own_instance(x):
    return crop(x)


def bad_shift_through_alias(x):
    return x + normal(0.0, 1.0)  # CG601


def good_gate_on_device(x):
    keep = (torch.rand((), device=x.device) >= 0.5).to(x.dtype)
    return x + keep * x.tanh()


def good_order_of_construction(x):
    return shuffled(x)


def good_factor_from_outside(x, factor):
    return (x * factor).sigmoid()


def good_same_seed_in_every_call(x):
    rng = random.Random(7)
    signs = [rng.choice((-1.0, 1.0)) for _ in range(4)]
    return x * signs[0] + x.tanh() * signs[1] - signs[2] * signs[3]


def good_method_with_this_name(x):
    return x * noise.uniform(x, 0.8, 1.2)
