"""anomaly-mode: autograd's NaN check reads every gradient on the CPU."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """A batch of rows."""
    return (torch.randn(16, 8, device=DEVICE),)


model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).to(DEVICE)


def backward(x):
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return loss.detach(), model[0].weight.grad


def bad_step_under_anomaly_mode(x):
    with torch.autograd.detect_anomaly():  # CG231
        return backward(x)


class Trainer:
    def __init__(self):
        self.detect_anomaly = True

    def fit(self, x):
        with torch.autograd.set_detect_anomaly(self.detect_anomaly):  # CG231
            return backward(x)


debugging = Trainer()


def bad_debugging_trainer(x):
    return debugging.fit(x)


def checked(fn):
    def run(x):
        torch.autograd.set_detect_anomaly(True)  # CG231
        try:
            return fn(x)
        finally:
            torch.autograd.set_detect_anomaly(False)

    return run


@checked
def bad_checked_step(x):
    return backward(x)


def good_step_without_it(x):
    with torch.autograd.set_detect_anomaly(False):
        return backward(x)


class FastTrainer:
    def __init__(self):
        self.detect_anomaly = False

    def fit(self, x):
        with torch.autograd.set_detect_anomaly(self.detect_anomaly):
            return backward(x)


fast = FastTrainer()


def good_trainer_with_the_option_off(x):
    return fast.fit(x)


nonfinite = torch.zeros((), dtype=torch.bool, device=DEVICE)


def good_flag_on_the_device(x):
    loss, grad = backward(x)
    nonfinite.logical_or_(~torch.isfinite(grad).all())
    return loss, nonfinite


def good_tracebacks_only(x):
    with torch.autograd.detect_anomaly(check_nan=False):
        return backward(x)
