"""not-capturable-optimizer: an Adam-like step whose counter is on the CPU."""

import torch
from torch import nn
from torch.optim import AdamW

DEVICE = "cuda"


def inputs():
    """A batch of rows."""
    return (torch.randn(16, 8, device=DEVICE),)


model = nn.Linear(8, 8).to(DEVICE)


def backward(x):
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return loss.detach()


def state():
    return [p.detach() for p in model.parameters()]


adam = torch.optim.Adam(model.parameters(), lr=1e-2)  # CG235


def bad_plain_adam(x):
    loss = backward(x)
    adam.step()  # CG235
    return loss


class Trainer:
    def __init__(self):
        self.optimizer = AdamW(model.parameters(), lr=1e-2, fused=True)  # CG235

    def update(self, x):
        loss = backward(x)
        self.optimizer.step()  # CG235
        return loss


trainer = Trainer()


def bad_fused_is_not_enough(x):
    return trainer.update(x)


OPTIMIZERS = {"rmsprop": torch.optim.RMSprop, "radam": torch.optim.RAdam}
chosen = OPTIMIZERS["rmsprop"](model.parameters(), lr=1e-3)  # CG235


def bad_chosen_by_name(x):
    loss = backward(x)
    chosen.step()  # CG235
    return loss


capturable = AdamW(model.parameters(), lr=1e-2, capturable=True)


def good_capturable_adamw(x):
    loss = backward(x)
    capturable.step()
    return loss


late = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for group in late.param_groups:
    group["capturable"] = True


def good_flag_set_before_the_first_step(x):
    loss = backward(x)
    late.step()
    return loss


momentum = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def good_momentum_needs_no_flag(x):
    loss = backward(x)
    momentum.step()
    return loss


class Schedule:
    def step(self, loss):
        return loss * 0.5


schedule = Schedule()


def good_step_of_something_else(x):
    return schedule.step(backward(x))
