"""state-rebinding: the graph goes on reading the tensor that the name stood for at capture."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(16, 8)
        self.h = torch.zeros(4, 8, device=DEVICE)

    def forward(self, x):
        h = torch.tanh(self.cell(torch.cat([x, self.h], -1)))
        self.h = h.detach()  # CG301
        return h


class RecurrentInPlace(Recurrent):
    def forward(self, x):
        h = torch.tanh(self.cell(torch.cat([x, self.h], -1)))
        self.h.copy_(h.detach())
        return h


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.hidden = None

    def forward(self, x):
        self.hidden = self.net(x)
        return self.hidden.relu() + self.hidden.mean()


recurrent = Recurrent().to(DEVICE).requires_grad_(False)
recurrent_in_place = RecurrentInPlace().to(DEVICE).requires_grad_(False)
features = Features().to(DEVICE).requires_grad_(False)
running_mean = torch.zeros(8, device=DEVICE)
velocity = torch.zeros(8, device=DEVICE)
total = torch.zeros(8, device=DEVICE)


def make_smoother():
    smooth = torch.zeros(4, 8, device=DEVICE)

    def smoother(x):
        nonlocal smooth
        smooth = 0.9 * smooth + 0.1 * x  # CG301
        return smooth

    return smoother


smoother = make_smoother()


def state():
    return [recurrent_in_place.h, velocity, total]


def bad_hidden_state(x):
    return recurrent(x)


def bad_running_mean(x):
    global running_mean
    running_mean = torch.lerp(running_mean, x.mean(0), 0.1)  # CG301
    return x - running_mean


def bad_smoother_closure(x):
    return smoother(x)


def good_hidden_state_copied(x):
    return recurrent_in_place(x)


def good_written_before_it_is_read(x):
    return features(x)


def good_name_bound_to_the_same_tensor(x):
    global velocity
    velocity = velocity.mul_(0.9).add_(x.mean(0))
    return x - velocity


def good_augmented_assignment(x):
    global total
    total += x.sum(0)
    return x / (1 + total.abs())
