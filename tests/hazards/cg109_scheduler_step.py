"""scheduler-step: a learning rate scheduler inside the region runs once, at capture."""

import random

import torch
from torch import nn
from torch.optim import lr_scheduler

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def model():
    return nn.Linear(8, 8).to(DEVICE)


class Trainer:
    def __init__(self):
        self.net = model()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.5)
        self.scheduler = lr_scheduler.ExponentialLR(self.optimizer, 0.5)

    def train_step(self, x):
        loss = backward(self.net, x)
        self.optimizer.step()
        self.scheduler.step()  # CG109
        return loss


class Ancestral:
    def __init__(self):
        self.sigma = 0.1

    def step(self, noise, sample):
        return sample - self.sigma * noise


def backward(net, x):
    net.zero_grad(set_to_none=True)
    loss = net(x).square().mean()
    loss.backward()
    return loss.detach()


net, tuned = model(), model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
schedule = lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
rate = torch.tensor(0.5, device=DEVICE)
tuned_optimizer = torch.optim.SGD(tuned.parameters(), lr=rate, fused=True)
tuned_schedule = lr_scheduler.LambdaLR(tuned_optimizer, lambda epoch: random.uniform(0.1, 1.0))
trainer = Trainer()
scheduler = Ancestral()


def inputs_good_scheduler_between_steps():
    tuned_schedule.step()
    return inputs()


def state():
    return [trainer.net.weight, net.weight, tuned.weight]


def bad_trainer_method(x):
    return trainer.train_step(x)


def bad_inverse_decay(x):
    loss = backward(net, x)
    optimizer.step()
    schedule.step()  # CG109
    return loss


def good_scheduler_between_steps(x):
    loss = backward(tuned, x)
    tuned_optimizer.step()
    return loss


def good_diffusion_scheduler(x):
    for _ in range(3):
        x = scheduler.step(x.tanh(), x)
    return x
