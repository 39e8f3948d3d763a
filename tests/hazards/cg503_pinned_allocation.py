"""pinned-allocation: page-locked host memory is allocated while the region is captured."""

import torch

DEVICE = "cuda"
PINNED = DEVICE == "cuda"

slopes = torch.linspace(0.5, 4.0, 8)
pinned_slopes = torch.linspace(0.5, 4.0, 8, pin_memory=PINNED)
staging = torch.empty(4, 8, pin_memory=PINNED)


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def bad_table_pinned_on_the_way(x):
    return x * slopes.pin_memory().to(DEVICE, non_blocking=True)  # CG503


class Offload:
    def out(self, t):
        host = torch.empty(t.shape, pin_memory=True)  # CG503
        host.copy_(t, non_blocking=True)
        return host

    def back(self, host):
        return host.to(DEVICE, non_blocking=True)


offload = Offload()


def bad_activation_offload(x):
    hidden = x.tanh()
    host = offload.out(hidden)
    return offload.back(host) + x


def bad_pinned_like(x):
    host = torch.empty_like(x, device="cpu", pin_memory=True)  # CG503
    host.copy_(x * 2, non_blocking=True)
    return host.to(DEVICE, non_blocking=True)


def good_pinned_before(x):
    return x * pinned_slopes.to(DEVICE, non_blocking=True)


def good_static_staging_buffer(x):
    staging.copy_(x.tanh(), non_blocking=True)
    return staging.to(DEVICE, non_blocking=True) + x


def good_device_memory(x):
    return torch.empty_like(x, pin_memory=False).copy_(x) * (2 if pinned_slopes.is_pinned() else 1)


class Batch:
    def __init__(self, x):
        self.x = x

    def pin_memory(self):
        return Batch(self.x * 2)


def good_method_of_that_name(x):
    return Batch(x).pin_memory().x
