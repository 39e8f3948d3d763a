"""allocation-churn: a Python loop over rows records several tiny kernels and allocations for each of them."""

import torch
from torch import nn

DEVICE = "cuda"
ROWS = 128


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(ROWS, 8, device=DEVICE),)


def bad_row_by_row(x):
    out = torch.empty_like(x)
    for i in range(x.shape[0]):  # CG504
        row = x[i]
        out[i] = (row - row.mean()) / (row.std() + 1e-5)
    return out


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 8))

    def one(self, row):
        return (row * self.weight).sum().sigmoid()

    def forward(self, x):
        return torch.stack([self.one(row) for row in x])  # CG504


scores = Scores().to(DEVICE).requires_grad_(False)


def bad_comprehension_over_rows(x):
    return scores(x)


def bad_recurrence_over_unbound_rows(x):
    hidden = torch.zeros(8, device=DEVICE)
    for row in x.unbind(0):  # CG504
        hidden = (0.9 * hidden + row).tanh()
    return hidden


def good_all_rows_at_once(x):
    return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)


layers = nn.ModuleList(nn.LayerNorm(8) for _ in range(4)).to(DEVICE).requires_grad_(False)


def good_loop_over_layers(x):
    for layer in layers:
        x = layer(x).relu()
    return x


def good_loop_over_four_heads(x):
    heads = []
    for head in x.chunk(4, dim=1):
        heads.append(head.softmax(-1))
    for i in range(2):
        heads[i] = heads[i] * 2
    return torch.cat(heads, dim=1)


def good_shape_arithmetic_in_a_loop(x):
    size = 1
    for n in x.shape:
        size *= n
    return x / size
