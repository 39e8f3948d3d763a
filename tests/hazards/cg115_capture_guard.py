"""capture-guard: a test for a running capture keeps a change of GPU state out of the graph, and so out of every replay."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(6, 8, device=DEVICE),)


def recording():
    return torch.cuda.is_current_stream_capturing()


class Centered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.zeros(8))

    @torch.no_grad()
    def track(self, x):
        if recording():  # CG115
            return
        self.center.lerp_(x.mean(0), 0.3)

    def forward(self, x):
        self.track(x)
        return x - self.center


centered = Centered().to(DEVICE)
counted = torch.zeros((), device=DEVICE)
seen = []


def state():
    return [centered.center, counted]


def bad_statistics_skipped(x):
    return centered(x)


def bad_counter_in_the_branch(x):
    if not torch.cuda.is_current_stream_capturing():  # CG115
        counted.add_(1.0)
    return x / (1.0 + counted)


def good_counter_in_both_branches(x):
    if torch.cuda.is_current_stream_capturing():
        seen.clear()
    counted.add_(1.0)
    return x / (1.0 + counted)


def good_host_read_kept_out(x):
    norm = x.square().sum().sqrt()
    if not recording():
        seen.append(norm.item())
    return x / norm


def good_wait_kept_out(x):
    if not recording():
        torch.cuda.synchronize()
    return torch.relu(x)
