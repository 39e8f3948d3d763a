"""python-step-optimizer: an optimizer that computes its step size from a host counter keeps that of the capture."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def model():
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)).to(DEVICE)


def backward(net, x):
    net.zero_grad(set_to_none=True)
    loss = net(x).square().mean()
    loss.backward()
    return loss.detach()


class Trainer:
    def __init__(self, optimizer, **options):
        self.net = model()
        self.optimizer = optimizer(self.net.parameters(), **options)

    def train_step(self, x):
        loss = backward(self.net, x)
        self.optimizer.step()
        return loss


embedding_like = model()
groups = [
    {"params": embedding_like[0].parameters(), "lr_decay": 1.0},
    {"params": embedding_like[2].parameters()},
]
grouped = torch.optim.Adagrad(groups, lr=0.5)  # CG112
decayed = model()
decayed_optimizer = torch.optim.Adagrad(decayed.parameters(), lr=0.5, lr_decay=1.0)  # CG112
apply_update = decayed_optimizer.step
plain = Trainer(torch.optim.Adagrad, lr=0.5, lr_decay=0.0)
adam = Trainer(torch.optim.AdamW, lr=1e-2, capturable=True)
momentum = Trainer(torch.optim.SGD, lr=0.1, momentum=0.9)


def state():
    nets = (embedding_like, decayed, plain.net, adam.net, momentum.net)
    return [parameter for net in nets for parameter in net.parameters()]


def bad_adagrad_with_decay(x):
    loss = backward(decayed, x)
    decayed_optimizer.step()  # CG112
    return loss


def bad_decay_in_one_group(x):
    loss = backward(embedding_like, x)
    grouped.step()  # CG112
    return loss


def bad_step_under_another_name(x):
    loss = backward(decayed, x)
    apply_update()  # CG112
    return loss


def good_adagrad_without_decay(x):
    return plain.train_step(x)


def good_capturable_adamw(x):
    return adam.train_step(x)


def good_momentum(x):
    return momentum.train_step(x)
