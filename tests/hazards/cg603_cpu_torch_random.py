"""cpu-torch-random: torch draws on the CPU where no device is named, once, at capture."""

import torch
from torch import nn

DEVICE = "cuda"
staging = torch.empty(4, 16, pin_memory=torch.cuda.is_available())


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 16, device=DEVICE),)


def inputs_good_noise_from_outside():
    """The noise is drawn on the CPU before each step and copied to the GPU there."""
    return torch.randn(4, 16, device=DEVICE), torch.randn(4, 16).to(DEVICE)


def drop_path(x, residual, p):
    if torch.rand(()) < p:  # CG603
        return x
    return x + residual


class RandomDepth(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            x = drop_path(x, layer(x).tanh(), 0.5)
        return x.relu()


class ShuffledBlocks(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        for index in torch.randperm(len(self.blocks)).tolist():  # CG603
            x = self.blocks[index](x).tanh()
        return x


class NoiseSchedule:
    """`rand` is a method that draws where its argument lives."""

    def rand(self, like):
        return like.new_empty(like.shape).uniform_()


random_depth = RandomDepth().to(DEVICE).requires_grad_(False)
shuffled = ShuffledBlocks(nn.Linear(16, 16) for _ in range(4)).to(DEVICE).requires_grad_(False)
schedule = NoiseSchedule()


def bad_random_depth(x):
    return random_depth(x)


def bad_shuffled_blocks(x):
    return shuffled(x)


def bad_noise_through_pinned_buffer(x):
    staging.normal_()  # CG603
    return x + staging.to(DEVICE, non_blocking=True)


def bad_strength_as_number(x):
    strength = torch.empty(1).uniform_(0.5, 1.5)  # CG603
    return x * strength.item()


def good_drop_path_on_device(x):
    keep = x.new_empty(x.shape[0], 1).bernoulli_(0.5)
    return x + keep * x.tanh()


def good_device_in_every_form(x):
    noise = torch.rand(4, 16, device=DEVICE) + torch.randn_like(x)
    return x + noise * torch.rand(x.shape, dtype=x.dtype, device=x.device)


def good_device_of_the_context(x):
    with torch.device(DEVICE):
        noise = torch.randn(4, 16)
    return x + noise


def good_noise_from_outside(x, noise):
    return x + noise


def good_fixed_signs_of_cpu_generator(x):
    generator = torch.Generator().manual_seed(3)
    for sign in torch.randint(0, 2, (4,), generator=generator).tolist():
        x = x * (2.0 * sign - 1.0) + 0.1
    return x


def good_method_with_this_name(x):
    return x * schedule.rand(x)
