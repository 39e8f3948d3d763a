"""blocking-pinned-copy: a copy from or to pinned memory that the CPU waits for."""

import torch
from torch import nn

DEVICE = "cuda"

staging = torch.linspace(0.5, 1.5, 8).pin_memory()
on_gpu = torch.zeros(8, device=DEVICE)


def inputs():
    """Rows with eight features."""
    return (torch.randn(4, 8, device=DEVICE),)


def bad_refill_from_staging(x):
    on_gpu.copy_(staging)  # CG223
    return x * on_gpu


class Offloaded(nn.Module):
    """A layer whose weight rests in pinned memory."""

    def __init__(self):
        super().__init__()
        self.host_weight = torch.randn(8, 8).pin_memory()

    def fetch(self, device):
        return self.host_weight.to(device)  # CG223

    def forward(self, x):
        return x @ self.fetch(x.device)


offloaded = Offloaded()


def bad_offloaded_weight(x):
    return offloaded(x)


readback = torch.zeros(4, 8).pin_memory()


def publish(values):
    readback.copy_(values, non_blocking=False)  # CG223
    return values


def bad_waiting_readback(x):
    return publish(x.tanh())


class Prefetched(nn.Module):
    def __init__(self):
        super().__init__()
        self.host_weight = torch.randn(8, 8).pin_memory()

    def forward(self, x):
        return x @ self.host_weight.to(x.device, non_blocking=True)


prefetched = Prefetched()


def good_asynchronous_fetch(x):
    return prefetched(x)


scales = torch.zeros(8, device=DEVICE)


def good_asynchronous_refill(x):
    scales.copy_(staging, True)  # the second argument is non_blocking
    return x * scales


snapshot = torch.zeros(4, 8, device=DEVICE)


def good_copy_on_the_device(x):
    snapshot.copy_(x)
    return snapshot.to(DEVICE) * 2


outbox = torch.zeros(4, 8).pin_memory()


def good_asynchronous_readback(x):
    y = x.tanh()
    outbox.copy_(y, non_blocking=True)
    return y
