"""device-value-read: a number is read from the GPU while the capture is open."""

import math
import operator

import torch
from torch import nn

DEVICE = "cuda"
TEMPERATURE = torch.tensor(0.7)  # a CPU tensor that nobody changes


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(16, 8, device=DEVICE),)


def grad_norm(grads):
    total = sum((g**2).sum() for g in grads)
    return math.sqrt(total)  # CG201


class RunningScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("amax", torch.ones(()))

    @property
    def scale(self):
        return 448.0 / float(self.amax)  # CG201

    def forward(self, x):
        return x * self.scale


class Meter:
    """Has methods with the names of tensor methods, and they touch no tensor."""

    def __init__(self):
        self.values = [1.0, 2.0]

    def item(self):
        return self.values[-1]


running = RunningScale().to(DEVICE)
meter = Meter()


def bad_normalise_by_max(x):
    peak = x.abs().max().item()  # CG201
    return x / peak


def bad_clip_by_norm(x):
    norm = grad_norm([x, x * 2])
    return x * (1.0 / (norm + 1e-6))


def bad_quantiser_property(x):
    return running(x).round()


def bad_read_through_alias(x):
    read, index = torch.Tensor.item, operator.index
    bucket = index(x.sum(-1).argmax())  # CG201
    if (x > 100.0).any().is_nonzero():  # CG201
        return x
    return x * read(x.mean()) + bucket  # CG201


def good_scale_on_device(x):
    norm = torch.sqrt((x**2).sum())
    return x / x.abs().max() * (1.0 / (norm + 1e-6)).float()


def good_numbers_of_the_shape(x):
    heads = int(x.shape[-1] / 2)
    width = float(x.size(-1)) if x.dim() > 1 else float("inf")
    return x / math.sqrt(x.numel()) + heads * width + operator.index(x.shape[0])


def good_item_of_other_objects(x):
    for name, factor in {"a": 1.5, "b": 0.5}.items():
        x = x * factor + len(name)
    return x * meter.item()


def good_item_of_cpu_constant(x):
    return x / TEMPERATURE.item() + float(TEMPERATURE)
