"""validated-distribution: torch.distributions tests its arguments on the CPU."""

import torch
from torch import nn
from torch.distributions import Categorical, Normal, kl_divergence

DEVICE = "cuda"

prior = Normal(torch.zeros(4, device=DEVICE), torch.ones(4, device=DEVICE))


def inputs():
    """Features of eight states."""
    return (torch.randn(8, 4, device=DEVICE),)


def bad_reparameterised_code(h):
    return Normal(h, h.exp()).rsample()  # CG228


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def distribution(self, obs):
        return torch.distributions.Categorical(logits=self.fc(obs))  # CG228

    def forward(self, obs):
        return self.distribution(obs).entropy()


policy = Policy().to(DEVICE).requires_grad_(False)


def bad_policy_entropy(obs):
    return policy(obs)


def bad_density_under_the_prior(z):
    return prior.log_prob(z).sum(-1)  # CG228


def good_validation_switched_off(h):
    d = Normal(h, h.exp(), validate_args=False)
    z = d.rsample()
    return z, d.log_prob(z).sum(-1)


class UncheckedPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.options = {"validate_args": False}

    def forward(self, obs):
        d = Categorical(logits=self.fc(obs), **self.options)
        action = d.sample()
        return action, d.log_prob(action), d.entropy()


unchecked = UncheckedPolicy().to(DEVICE).requires_grad_(False)


def good_unchecked_policy(obs):
    return unchecked(obs)


unchecked_prior = Normal(torch.zeros(4, device=DEVICE), torch.ones(4, device=DEVICE), validate_args=False)


def good_divergence_of_unchecked(h):
    posterior = Normal(h, h.exp(), validate_args=False)
    return kl_divergence(posterior, unchecked_prior).sum(-1) + unchecked_prior.log_prob(h).sum(-1)


class Gaussian:
    """Formulas of our own: nothing is checked."""

    def __init__(self, loc, scale):
        self.loc, self.scale = loc, scale

    def log_prob(self, z):
        return -0.5 * ((z - self.loc) / self.scale).square() - self.scale.log()


def good_own_density(h):
    return Gaussian(h, h.exp()).log_prob(h + 1)
