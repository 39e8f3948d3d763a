"""nonzero-shape: the positions of true elements are asked for, and their number is known only on the GPU."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(16, 8, device=DEVICE), torch.randint(0, 4, (16,), device=DEVICE))


def positions(mask):
    return torch.nonzero(mask, as_tuple=True)  # CG211


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x, route):
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows = torch.where(route == e)[0]  # CG211
            out.index_add_(0, rows, expert(x.index_select(0, rows)))
        return out

    def dense(self, x, route):
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            out = out + torch.where((route == e)[:, None], expert(x), 0.0)
        return out


class Grid:
    """Knows its filled cells on the host."""

    def __init__(self, cells):
        self.cells = cells

    def nonzero(self):
        return [i for i, c in enumerate(self.cells) if c]


experts = Experts().to(DEVICE).requires_grad_(False)
grid = Grid([1, 0, 1, 1])


def bad_route_tokens(x, route):
    return experts(x, route)


def bad_gather_active(x, route):
    rows, cols = positions(x > 0.5)
    return x[rows, cols].sum() + route


def bad_candidate_boxes(x, route):
    boxes = torch.argwhere(x > 1.0)  # CG211
    first = x.sum(-1).gt(0).nonzero().flatten()  # CG211
    return boxes.float().mean() + first.sum() + route


def bad_pairs(x, route):
    pairs = torch.combinations(x[0], r=2)  # CG211
    return pairs.prod(-1).sum() + route


def good_dense_experts(x, route):
    return experts.dense(x, route)


def good_where_with_three_arguments(x, route):
    y = torch.where(x > 0.5, x, torch.zeros_like(x))
    z = torch.where(condition=route[:, None] > 1, input=y, other=x)
    return z, torch.count_nonzero(x > 0.5)


def good_fixed_number_of_positions(x, route):
    rows = torch.nonzero_static(route == 1, size=16, fill_value=0).squeeze(1)
    best = x.sum(-1).topk(4).indices
    return rows, x[best]


def good_pairs_by_fixed_indices(x, route):
    i, j = torch.triu_indices(8, 8, offset=1, device=x.device)
    return (x[0, i] * x[0, j]).sum() + route * len(grid.nonzero())
