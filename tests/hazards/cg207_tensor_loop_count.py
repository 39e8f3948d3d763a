"""tensor-loop-count: a GPU tensor says how often a Python loop runs."""

from itertools import islice, repeat

import torch
from torch import nn

DEVICE = "cuda"
MAX_STEPS = 4


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(8, 16, device=DEVICE), torch.randint(1, 5, (), device=DEVICE))


def refine(x, steps):
    for _ in range(steps):  # CG207
        x = x - 0.1 * torch.sin(x)
    return x


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList(nn.Linear(16, 16) for _ in range(MAX_STEPS))
        self.register_buffer("depth", torch.tensor(3))

    def forward(self, x):
        for cell in islice(self.cells, self.depth):  # CG207
            x = torch.tanh(cell(x))
        return x

    def masked(self, x, depth):
        for i, cell in enumerate(self.cells):
            x = torch.where(i < depth, torch.tanh(cell(x)), x)
        return x


recurrent = Recurrent().to(DEVICE).requires_grad_(False)


def bad_refine(x, steps):
    return refine(x, steps)


def bad_depth_buffer(x, steps):
    return recurrent(x) + steps


def bad_count_of_longest(x, steps):
    longest = (x > 0).sum(-1).max()
    for i in range(0, longest, 4):  # CG207
        x = x + i
    for gain in repeat(0.5, steps):  # CG207
        x = x * gain
    return x


def bad_countdown(x, steps):
    turns = list(range(steps))  # CG207
    return sum(x * i for i in turns) + x


def good_masked_depth(x, steps):
    return recurrent.masked(x, steps)


def good_loop_over_rows(x, steps):
    total = torch.zeros_like(x[0])
    for i, row in enumerate(x):
        total = total + row * i
    return total + steps + sum(a + b for a, b in zip(x, x, strict=True))


def good_range_of_sizes(x, steps):
    for i in range(x.shape[0]):
        x = x + i
    for i in range(0, len(x), x.dim()):
        x = x * (i + 1)
    return x + steps


def good_islice_of_numbers(x, steps):
    for cell in islice(recurrent.cells, MAX_STEPS // 2):
        x = torch.tanh(cell(x))
    return x * sum(repeat(1, x.size(1))) + torch.arange(x.shape[1], device=x.device) * steps
