"""normal-with-tensor-std: torch.normal reads the smallest standard deviation on the CPU."""

import torch
from torch import nn
from torch.distributions import Normal

DEVICE = "cuda"


def inputs():
    """Means of eight actions."""
    return (torch.randn(8, 4, device=DEVICE),)


def bad_exploring_action(mu):
    return torch.normal(mu, mu.abs() + 0.1)  # CG229


class NoisyLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.sigma = nn.Parameter(torch.full((4,), 0.3))

    def noise(self):
        return torch.normal(0.0, self.sigma)  # CG229

    def forward(self, x):
        return x + self.noise()


noisy = NoisyLayer().to(DEVICE).requires_grad_(False)


def bad_learned_noise(x):
    return noisy(x)


def bad_sample_of_a_distribution(mu):
    return Normal(mu, mu.abs() + 0.1, validate_args=False).sample()  # CG229


def good_shift_and_scale(mu):
    std = mu.abs() + 0.1
    return mu + std * torch.randn_like(mu)


def good_std_is_a_number(mu):
    return torch.normal(mu, 0.5) + torch.normal(0.0, 1.0, mu.shape, device=mu.device)


class Jittered(nn.Module):
    def __init__(self):
        super().__init__()
        self.std = 0.1

    def forward(self, x):
        noise = torch.empty_like(x).normal_(0.0, self.std)
        return nn.init.normal_(torch.empty_like(x), std=self.std) + x + noise


jittered = Jittered()


def good_filled_in_place(x):
    return jittered(x)


def good_reparameterised_sample(mu):
    return Normal(mu, mu.abs() + 0.1, validate_args=False).rsample()
