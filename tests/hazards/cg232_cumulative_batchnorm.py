"""cumulative-batchnorm: BatchNorm(momentum=None) divides by a counter that it reads on the CPU."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """A batch of rows."""
    return (torch.randn(16, 8, device=DEVICE),)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8, momentum=None)  # CG232

    def forward(self, x):
        return torch.relu(self.norm(self.fc(x)))  # CG232


cumulative = Block().to(DEVICE).requires_grad_(False)


def bad_cumulative_block(x):
    return cumulative(x)


class RunningMean(nn.BatchNorm2d):
    def __init__(self, channels):
        super().__init__(channels, momentum=None)


images = RunningMean(2).to(DEVICE).requires_grad_(False)


def bad_subclass_of_the_layer(x):
    return images(x.view(16, 2, 2, 2))  # CG232


recalibrated = nn.BatchNorm1d(8).to(DEVICE).requires_grad_(False)  # CG232
recalibrated.momentum = None


def bad_recalibrated_statistics(x):
    return recalibrated(x * 2)  # CG232


class FixedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8, momentum=0.05)

    def forward(self, x):
        return torch.relu(self.norm(self.fc(x)))


fixed = FixedBlock().to(DEVICE).requires_grad_(False)


def good_fixed_momentum(x):
    return fixed(x), fixed.norm.running_mean


frozen = nn.BatchNorm1d(8, momentum=None).to(DEVICE).requires_grad_(False).eval()


def good_evaluation_mode(x):
    return frozen(x)


untracked = nn.BatchNorm1d(8, momentum=None, track_running_stats=False).to(DEVICE).requires_grad_(False)


def good_no_running_statistics(x):
    return untracked(x)
