"""host-list-index: an index that lives on the host has to be uploaded before the GPU can use it."""

import numpy as np
import torch
from torch import nn

DEVICE = "cuda"
ORDER = np.array([5, 1, 4, 0])


def inputs():
    """Rows with eight features."""
    return (torch.randn(4, 8, device=DEVICE),)


def bad_literal_columns(x):
    return x[:, [0, 2, 5]].sum(1)  # CG222


class Pruned(nn.Module):
    def __init__(self):
        super().__init__()
        self.keep = [1, 3, 4, 7]
        self.active = [True, False, True, True]
        self.fc = nn.Linear(4, 2)

    def kept(self, x):
        return x[..., self.keep]  # CG222

    def forward(self, x):
        return self.fc(self.kept(x)[self.active])  # CG222


pruned = Pruned().to(DEVICE).requires_grad_(False)


def bad_pruned_channels(x):
    return pruned(x)


def reorder(features, order):
    return features[:, order]  # CG222


def bad_numpy_permutation(x):
    return reorder(x * 2, ORDER)


even = torch.arange(0, 8, 2)


def bad_index_on_the_cpu(x):
    y = x.clone()
    y[:, even] = 0.0  # CG222
    return y


class Selected(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keep", torch.tensor([1, 3, 4, 7]))
        self.heads = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))

    def forward(self, x):
        kept = x[:, self.keep]
        return [self.heads[i](kept) for i in [0, 2]]


selected = Selected().to(DEVICE).requires_grad_(False)


def good_index_in_a_buffer(x):
    return selected(x)


def good_slices_and_numbers(x):
    corner = x[1, 2] + x[(0, 3)]
    return x[:, 0:6:2] + x[..., -3:] + corner, x[None, 2]


def good_stacked_columns(x):
    return torch.stack([x[:, i] for i in [0, 2, 5]], 1)


def good_lists_that_are_sizes(x):
    left, right = x.split([2, 6], dim=1)
    table = {(0, 1): left, (2, 3): right}
    return table[0, 1].permute([1, 0]).reshape([2, 2, 2]), table[2, 3]
