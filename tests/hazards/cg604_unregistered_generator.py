"""unregistered-generator: an operation draws from a CUDA generator that the graph does not know."""

import torch
from torch import nn

DEVICE = "cuda"
generator = torch.Generator(device=DEVICE)
generator.manual_seed(5)


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 16, device=DEVICE),)


def inputs_good_drawn_outside():
    """The generator of the request draws before the step."""
    return torch.randn(4, 16, device=DEVICE), torch.randn(4, 16, device=DEVICE, generator=generator)


def default_generator():
    return torch.cuda.default_generators[torch.cuda.current_device()] if DEVICE == "cuda" else torch.default_generator


def noise_like(x, rng=None):
    return torch.empty_like(x).normal_(generator=rng)


class Sampler:
    """Draws the next token of every row."""

    def __init__(self, seed):
        self.rng = torch.Generator(DEVICE).manual_seed(seed)

    def sample(self, logits):
        return torch.multinomial(logits.softmax(-1), 1, generator=self.rng)  # CG604


class DropPath(nn.Module):
    def __init__(self, keep, rng):
        super().__init__()
        self.keep = keep
        self.options = {"generator": rng}

    def forward(self, x):
        mask = torch.full((x.shape[0], 1), self.keep, device=x.device)
        return x * torch.bernoulli(mask, **self.options)  # CG604


class Augmenter:
    """Has an argument called generator that is no random generator."""

    def scaled(self, x, generator):
        return x * next(iter(generator))


sampler = Sampler(11)
drop_path = DropPath(0.9, torch.Generator(device=DEVICE))


def bad_noise_of_own_generator(x):
    return x + torch.randn(4, 16, device=DEVICE, generator=generator)  # CG604


def bad_sampled_token(x):
    return sampler.sample(x)


def bad_generator_among_options(x):
    return drop_path(x)


def bad_in_place_noise(x):
    rng = generator
    return x + torch.empty_like(x).uniform_(-1.0, 1.0, generator=rng)  # CG604


def good_default_generator(x):
    return x + torch.randn_like(x) + noise_like(x)


def good_default_generator_named(x):
    return x + noise_like(x, rng=default_generator())


def good_generator_is_none(x):
    mask = torch.full((x.shape[0], 1), 0.9, device=x.device)
    return x * torch.bernoulli(mask, generator=None)


def good_drawn_outside(x, noise):
    return x + noise


def good_argument_of_other_kind(x):
    return Augmenter().scaled(x, (factor for factor in (0.5, 2.0)))
