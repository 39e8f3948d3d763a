"""tensor-as-index: a 0-d GPU tensor stands where indexing needs a number of the host."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(16, 8, device=DEVICE), torch.randint(1, 5, (), device=DEVICE))


def last_valid(sequence, lengths):
    return sequence[: lengths.max()]  # CG216


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(32, 8))
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        return x + self.table[self.step]  # CG216

    def selected(self, x):
        return x + self.table.index_select(0, self.step.view(1))


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        choice = x.sum(0)[:4].argmax()
        return self.experts[choice](x)  # CG216

    def all_experts(self, x):
        choice = x.sum(0)[:4].argmax()
        stacked = torch.stack([expert(x) for expert in self.experts])
        return stacked.index_select(0, choice.view(1)).squeeze(0)


positions = Positions().to(DEVICE)
mixture = Mixture().to(DEVICE).requires_grad_(False)


def bad_position_table(x, t):
    return positions(x) + t


def bad_expert_of_list(x, t):
    return mixture(x) * t


def bad_cut_and_write(x, t):
    best = x.sum(-1).argmax()
    y = x.clone()
    y[best] = 1.0  # CG216
    return last_valid(y, (x > 0).sum(0)).sum() + t


def bad_window(x, t):
    window = x.narrow(0, t, 4)  # CG216
    moved = x.roll(t, 0)  # CG216
    row = x.select(0, t)  # CG216
    return window.sum(0) + moved.sum(0) + row


def good_tables_by_index_select(x, t):
    return positions.selected(x) + mixture.all_experts(x) * t


def good_index_of_one_dimension(x, t):
    best = x.argmax(-1)
    rows = torch.arange(x.shape[0], device=x.device)
    window = t.view(1) + torch.arange(4, device=x.device)
    return x[rows, best], x[best].sum(0), x[t.view(1)], x[window], x[None, ..., -1]


def good_python_indices(x, t):
    middle = x.shape[0] // 2
    y = x[:middle] + x[middle:] + x.narrow(0, 2, middle)
    return y.roll(x.dim(), 0) * t + mixture.experts[middle % 4](y).select(0, 1)


def good_write_by_mask(x, t):
    best = x.sum(-1).argmax()
    rows = torch.arange(x.shape[0], device=x.device)
    return torch.where((rows == best)[:, None], 1.0, x) * (rows < t)[:, None]
