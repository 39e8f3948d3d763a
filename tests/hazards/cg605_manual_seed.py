"""manual-seed: a seed is set inside the region, which a capture refuses where it is another one."""

import random

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 16, device=DEVICE),)


def inputs_good_noise_seeded_outside():
    """The seed is set before the step, where the noise is drawn."""
    x = torch.randn(4, 16, device=DEVICE)
    torch.manual_seed(3)
    return x, torch.randn(4, 16, device=DEVICE)


def augmented(x, seed):
    torch.manual_seed(seed)  # CG605
    return x + 0.1 * torch.randn_like(x)


def seed_everything(seed):
    random.seed(seed)
    torch.cuda.manual_seed_all(seed)  # CG605


class FixedNoise(nn.Module):
    """Adds the same noise in every call."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    def forward(self, x):
        torch.cuda.manual_seed(self.seed)  # CG605
        return x + torch.randn_like(x)


class NoiseBank:
    """Its manual_seed() only picks a row that was drawn when the bank was built."""

    def __init__(self, rows):
        self.rows = torch.randn(rows, 16, device=DEVICE)
        self.row = 0

    def manual_seed(self, row):
        self.row = row
        return self

    def sample(self):
        return self.rows[self.row]


noisy = nn.Sequential(FixedNoise(1), nn.Tanh(), FixedNoise(2))
bank = NoiseBank(8)


def bad_two_views(x):
    return augmented(x, 1), augmented(x, 2)


def bad_fixed_noise_layers(x):
    return noisy(x)


def bad_ensemble_of_masks(x):
    total = torch.zeros_like(x)
    for seed in range(100, 103):
        seed_everything(seed)
        total += F.dropout(x, 0.5)
    return total / 3


def bad_fresh_seed_in_every_call(x):
    torch.seed()  # CG605
    return x + torch.randn_like(x)


def good_numbers_move_on(x):
    return x + torch.randn_like(x), F.dropout(x, 0.5)


def good_noise_seeded_outside(x, noise):
    return x + noise


def good_seed_of_cpu_generator(x):
    generator = torch.Generator()
    generator.manual_seed(7)
    for weight in torch.rand(3, generator=generator).tolist():
        x = x.tanh() * weight + 1.0
    return x


def good_method_with_this_name(x):
    return x + bank.manual_seed(3).sample()
