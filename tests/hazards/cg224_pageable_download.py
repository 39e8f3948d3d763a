"""pageable-download: a result is copied into ordinary host memory while the graph is recorded."""

import torch
from torch import nn

DEVICE = "cuda"

metrics = torch.zeros(2)
last_logits = torch.zeros(4, 3)


def inputs():
    """Rows with eight features."""
    return (torch.randn(4, 8, device=DEVICE),)


def bad_metrics_buffer(x):
    y = x.square()
    metrics[0] = y.mean()  # CG224
    return y


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 3)

    def remember(self, logits):
        last_logits.copy_(logits, non_blocking=True)  # CG224

    def forward(self, x):
        logits = self.fc(x)
        self.remember(logits)
        return logits.softmax(-1)


probe = Probe().to(DEVICE).requires_grad_(False)


def bad_remembered_logits(x):
    return probe(x)


def watched(host):
    def wrap(fn):
        def run(x):
            y = fn(x)
            host.copy_(y.sum(0))  # CG224
            return y

        return run

    return wrap


@watched(torch.zeros(8))
def bad_watched_activation(x):
    return torch.relu(x)


device_metrics = torch.zeros(2, device=DEVICE)


def good_metrics_on_the_device(x):
    y = x.square()
    device_metrics[0] = y.mean()
    device_metrics[1].copy_(y.amax())
    return y, device_metrics


host_logits = torch.zeros(4, 8).pin_memory()


def good_pinned_and_asynchronous(x):
    y = x.softmax(-1)
    host_logits.copy_(y, non_blocking=True)
    return y


class Ring:
    """Its copy_ is not the one of a tensor: it stays on the GPU."""

    def __init__(self):
        self.slots = torch.zeros(3, 8, device=DEVICE)

    def copy_(self, row):
        self.slots[1:] = self.slots[:-1].clone()
        self.slots[0] = row


ring = Ring()


def good_own_copy_method(x):
    ring.copy_(x.mean(0))
    return ring.slots.sum(0)
