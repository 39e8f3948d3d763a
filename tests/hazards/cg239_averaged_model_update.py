"""averaged-model-update: AveragedModel tests its counter on the CPU and moves it between devices."""

import copy

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

DEVICE = "cuda"


def inputs():
    """A batch of rows."""
    return (torch.randn(16, 8, device=DEVICE),)


model = nn.Linear(8, 8).to(DEVICE)


@torch.no_grad()
def drift(x):
    model.weight.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return model.weight.detach()


swa = AveragedModel(model)


def bad_mean_of_the_weights(x):
    drift(x)
    swa.update_parameters(model)  # CG239
    return swa.module.weight.detach()


class Teacher:
    def __init__(self):
        self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))

    def follow(self):
        self.average.update_parameters(model)  # CG239

    def step(self, x):
        drift(x)
        self.follow()
        return self.average(x).detach()


teacher = Teacher()


def bad_moving_average_teacher(x):
    return teacher.step(x)


on_device = AveragedModel(model, device=DEVICE)


def bad_counter_on_the_device(x):
    drift(x)
    on_device.update_parameters(model)  # CG239
    return on_device.module.weight.detach()


shadow = copy.deepcopy(model).requires_grad_(False)


@torch.no_grad()
def good_interpolated_shadow(x):
    drift(x)
    torch._foreach_lerp_(list(shadow.parameters()), list(model.parameters()), 0.1)
    return shadow.weight


class Averager(nn.Module):
    """The method has the same name, the counter stays on the GPU."""

    def __init__(self, source):
        super().__init__()
        self.module = copy.deepcopy(source).requires_grad_(False)
        self.register_buffer("count", torch.zeros(()))

    @torch.no_grad()
    def update_parameters(self, source):
        self.count.add_(1)
        for mine, other in zip(self.module.parameters(), source.parameters()):
            mine.add_((other - mine) / self.count)


averager = Averager(model).to(DEVICE)


def good_own_update_parameters(x):
    drift(x)
    averager.update_parameters(model)
    return averager.module.weight


fixed = AveragedModel(model)


def good_forward_of_the_average(x):
    return fixed(x).detach() * 2
