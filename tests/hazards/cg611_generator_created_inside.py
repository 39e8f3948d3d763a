"""generator-created-inside: a CUDA generator is constructed in the region."""

import torch
from torch import nn

DEVICE = "cuda"
request_generator = torch.Generator(device=DEVICE)


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 16, device=DEVICE),)


def inputs_good_latent_of_request():
    """Each request seeds the one generator and draws its latent before the step."""
    request_generator.manual_seed(42)
    return torch.randn(4, 16, device=DEVICE), torch.randn(4, 16, device=DEVICE, generator=request_generator)


def generator_for(seed, device):
    made = torch.Generator(device=device)  # CG611
    return made.manual_seed(seed)


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.unet = nn.Linear(16, 16)
        self.seed = 0

    def latent(self, x):
        return torch.empty_like(x).normal_(generator=generator_for(self.seed, x.device))

    def forward(self, x):
        return self.unet(x + self.latent(x))


class Generator(nn.Module):
    """The half of a GAN that makes images; cheap to construct."""

    def __init__(self, device):
        super().__init__()
        self.scale = torch.full((), 0.5, device=device)

    def forward(self, z):
        return torch.tanh(z * self.scale)


pipeline = Pipeline().to(DEVICE).requires_grad_(False)


def bad_noise_of_new_generator(x):
    return x + torch.randn(4, 16, device=DEVICE, generator=torch.Generator(device=DEVICE).manual_seed(1))  # CG611


def bad_pipeline_with_seed(x):
    return pipeline(x)


def bad_generator_unless_given(x, generator=None):
    generator = generator or torch.Generator(x.device)  # CG611
    return torch.bernoulli(x.sigmoid(), generator=generator)


def good_latent_of_request(x, latent):
    return pipeline.unet(x + latent)


def good_default_generator(x, generator=None):
    return x + torch.empty_like(x).normal_(generator=generator)


def good_cpu_generator_for_constants(x):
    generator = torch.Generator(device="cpu").manual_seed(5)
    order = torch.randperm(4, generator=generator).tolist()
    return torch.stack([x[index] * (number + 1) for number, index in enumerate(order)])


def good_class_with_this_name(x):
    return Generator(x.device)(x)
