"""data-assignment: new storage behind a parameter is written again and again from the old one."""

from types import SimpleNamespace

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def model():
    return nn.Linear(8, 8).to(DEVICE).requires_grad_(False)


class TargetNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = model()
        self.target = model()

    @torch.no_grad()
    def soft_update(self, tau):
        for new, old in zip(self.online.parameters(), self.target.parameters(), strict=True):
            old.data = old.data * (1 - tau) + new.data * tau  # CG303

    @torch.no_grad()
    def soft_update_in_place(self, tau):
        for new, old in zip(self.online.parameters(), self.target.parameters(), strict=True):
            old.data.mul_(1 - tau).add_(new.data, alpha=tau)


def decay(layer):
    shrunk = layer.weight * 0.9
    layer.weight.set_(shrunk)  # CG303


online_target = TargetNetwork()
in_place_target = TargetNetwork()
decayed, first, second, cleaned = model(), model(), model(), model()


def state():
    nets = (online_target.target, in_place_target.target, decayed, cleaned)
    return [net.weight for net in nets]


def bad_soft_update(x):
    y = online_target.target(x)
    online_target.soft_update(0.2)
    return y


def bad_decay_with_set(x):
    y = decayed(x)
    decay(decayed)
    return y


def bad_swapped_weights(x):
    y = first(x)
    first.weight.data, second.weight.data = second.weight.data, first.weight.data  # CG303
    return y


def good_soft_update_in_place(x):
    y = in_place_target.target(x)
    in_place_target.soft_update_in_place(0.2)
    return y


def good_copy_into_data(x):
    cleaned.weight.data.copy_(cleaned.weight.data * 0.9)
    return cleaned(x)


def good_field_called_data(x):
    batch = SimpleNamespace(data=x)
    batch.data = batch.data * 2
    return batch.data.sum()


def good_python_set(x):
    names = set()
    names.add("weight")
    return x * len(names)
