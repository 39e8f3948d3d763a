"""learning-rate-number: a float learning rate is a constant of the captured optimizer step."""

import random

import torch
from torch import nn
from torch.optim import lr_scheduler

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def setup(lr, **options):
    net = nn.Linear(8, 8).to(DEVICE)
    return net, torch.optim.SGD(net.parameters(), lr=lr, **options)


def backward(net, x):
    net.zero_grad(set_to_none=True)
    loss = net(x).square().mean()
    loss.backward()
    return loss.detach()


decayed, decayed_optimizer = setup(0.5)
adjusted, adjusted_optimizer = setup(0.5)
scheduled, scheduled_optimizer = setup(0.5)
schedule = lr_scheduler.ExponentialLR(scheduled_optimizer, 0.5)
tuned, tuned_optimizer = setup(torch.tensor(0.5, device=DEVICE), fused=True)
constant, constant_optimizer = setup(0.5)
constant_optimizer.param_groups[0]["lr"] = 0.25
settings = {"lr": 0.1}


def adjust_learning_rate(optimizer, value):
    for group in optimizer.param_groups:
        group["lr"] = value


def inputs_bad_rate_set_by_callback():
    adjust_learning_rate(adjusted_optimizer, random.uniform(0.01, 1.0))
    return inputs()


def inputs_bad_scheduler_between_replays():
    schedule.step()
    return inputs()


def inputs_good_tensor_rate():
    tuned_optimizer.param_groups[0]["lr"].fill_(random.uniform(0.01, 1.0))
    return inputs()


def state():
    return [net.weight for net in (decayed, adjusted, scheduled, tuned, constant)]


def bad_decay_in_the_step(x):
    loss = backward(decayed, x)
    for group in decayed_optimizer.param_groups:
        group["lr"] *= 0.5  # CG110
    decayed_optimizer.step()  # CG110
    return loss


def bad_rate_set_by_callback(x):
    loss = backward(adjusted, x)
    adjusted_optimizer.step()  # CG110
    return loss


def bad_scheduler_between_replays(x):
    loss = backward(scheduled, x)
    scheduled_optimizer.step()  # CG110
    return loss


def good_tensor_rate(x):
    loss = backward(tuned, x)
    tuned_optimizer.step()
    return loss


def good_constant_rate(x):
    loss = backward(constant, x)
    constant_optimizer.step()
    return loss


def good_dictionary_of_another_kind(x):
    return x - settings["lr"] * x.tanh()
