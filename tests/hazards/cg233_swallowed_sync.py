"""swallowed-sync: catching the error of a forbidden read does not bring the capture back to life."""

import contextlib

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """A batch of rows."""
    return (torch.randn(16, 8, device=DEVICE),)


def bad_fallback_scale(x):
    try:
        return x / x.abs().max().item()  # CG201 CG233
    except RuntimeError:
        return x


class Guarded(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def report(self, y):
        with contextlib.suppress(RuntimeError):
            return float(y.mean())  # CG201 CG233
        return 0.0

    def forward(self, x):
        y = self.fc(x)
        self.report(y)
        return y


guarded = Guarded().to(DEVICE).requires_grad_(False)


def bad_suppressed_report(x):
    return guarded(x)


def best_effort(fn):
    def run(x):
        try:
            return fn(x)
        except Exception:
            return torch.zeros_like(x)

    return run


@best_effort
def bad_best_effort_filter(x):
    return x * torch.unique(x).sum()  # CG212 CG233


def good_error_of_a_dict(x):
    try:
        scale = {"train": 2.0}["eval"]
    except KeyError:
        scale = 0.5
    return x * scale


class WithoutBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        try:
            return self.fc(x) + self.bias
        except AttributeError:
            return self.fc(x)


without_bias = WithoutBias().to(DEVICE).requires_grad_(False)


def good_missing_attribute(x):
    return without_bias(x)


def good_try_for_cleaning_up(x):
    scope = contextlib.ExitStack()
    try:
        scope.enter_context(torch.no_grad())
        return x / x.abs().max()
    finally:
        scope.close()
