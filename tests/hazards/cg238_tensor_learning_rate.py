"""tensor-learning-rate: SGD passes a CUDA learning rate to its kernels as a Python number."""

import torch
from torch import nn
from torch.optim import SGD

DEVICE = "cuda"


def inputs():
    """A batch of rows."""
    return (torch.randn(16, 8, device=DEVICE),)


model = nn.Linear(8, 8).to(DEVICE)
rate = torch.tensor(0.1, device=DEVICE)


def backward(x):
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return loss.detach()


def state():
    return [p.detach() for p in model.parameters()]


sgd = SGD(model.parameters(), lr=rate)  # CG238


def bad_rate_on_the_device(x):
    loss = backward(x)
    sgd.step()  # CG238
    return loss


class Trainer:
    def __init__(self):
        self.optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, foreach=False)  # CG238

    def fit(self, x):
        loss = backward(x)
        self.optimizer.step()  # CG238
        return loss


trainer = Trainer()


def bad_loop_with_momentum(x):
    return trainer.fit(x)


regrouped = SGD(model.parameters(), lr=0.1)  # CG238
regrouped.param_groups[0]["lr"] = torch.full((), 0.05, device=DEVICE)


def bad_rate_put_into_the_group(x):
    loss = backward(x)
    regrouped.step()  # CG238
    return loss


fused = SGD(model.parameters(), lr=rate, momentum=0.9, fused=True)


def good_fused_sgd(x):
    loss = backward(x)
    fused.step()
    return loss


adam = torch.optim.Adam(model.parameters(), lr=rate, capturable=True)


def good_capturable_adam(x):
    loss = backward(x)
    adam.step()
    return loss


host_rate = SGD(model.parameters(), lr=torch.tensor(0.1))


def good_rate_that_never_changes(x):
    loss = backward(x)
    host_rate.step()
    return loss


def good_own_update(x):
    loss = backward(x)
    with torch.no_grad():
        for p in model.parameters():
            p.sub_(rate * p.grad)
    return loss
