"""unread-side-effect: a counter or a log of the region counts captures, not replays."""

import collections

import torch
from torch import nn

DEVICE = "cuda"
history = []
rows_seen = 0


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x):
        self.calls += 1  # CG107
        return self.net(x)


class Observed(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.hidden = None

    def forward(self, x):
        self.calls += 1
        self.hidden = self.net(x)
        return self.hidden.tanh()


counted = Counted().to(DEVICE).requires_grad_(False)
observed = Observed().to(DEVICE).requires_grad_(False)
usage = collections.Counter()
last = {}


def state():
    return [observed.calls]


def bad_call_counter(x):
    return counted(x)


def bad_loss_history(x):
    loss = x.square().mean()
    history.append(loss.detach())  # CG107
    return loss


def note(name, rows):
    global rows_seen
    rows_seen += rows  # CG107
    usage[name] += 1  # CG107


def bad_usage_statistics(x):
    note("rows", len(x))
    return x.softmax(-1)


def good_counter_on_the_device(x):
    return observed(x)


def good_tensor_kept_for_later(x):
    last["logits"] = x @ x.T
    return last["logits"].sum()


def good_local_list(x):
    parts = []
    for scale in (1, 2, 3):
        parts.append(x * scale)
    return torch.stack(parts)
