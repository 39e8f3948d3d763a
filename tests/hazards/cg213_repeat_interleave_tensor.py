"""repeat-interleave-tensor: the length of the result is the sum of counts that only the GPU knows."""

import functools

import torch
from torch import nn

DEVICE = "cuda"
TOTAL = 12


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    counts = torch.tensor([1, 2, 4, 5], device=DEVICE)[torch.randperm(4, device=DEVICE)]
    return (torch.randn(4, 8, device=DEVICE), counts)


def segment_ids(counts):
    return torch.repeat_interleave(counts)  # CG213


class LengthRegulator(nn.Module):
    def __init__(self):
        super().__init__()
        self.duration = nn.Linear(8, 1)

    def forward(self, x, counts):
        return x.repeat_interleave(counts, dim=0)  # CG213

    def fixed(self, x, counts):
        return torch.repeat_interleave(x, counts, dim=0, output_size=TOTAL)


regulator = LengthRegulator().to(DEVICE).requires_grad_(False)
along_rows = functools.partial(torch.repeat_interleave, dim=0)


def bad_length_regulator(x, counts):
    return regulator(x, counts)


def bad_segment_ids(x, counts):
    return x.sum() + segment_ids(counts)


def bad_expand_targets(x, counts):
    spread = along_rows(x, counts)  # CG213
    repeats = x.argmax(-1) % 3 + 1
    return spread, torch.repeat_interleave(x, repeats, dim=0).mean()  # CG213


def good_fixed_total(x, counts):
    return regulator.fixed(x, counts), x.repeat_interleave(counts, dim=0, output_size=TOTAL)


def good_number_of_repeats(x, counts):
    groups = x.shape[-1] // 4
    return x.repeat_interleave(groups, dim=0), along_rows(x, 2), torch.repeat_interleave(counts, 3)


def good_plain_repeat(x, counts):
    return x.repeat(2, 1) + counts.repeat(2)[:, None], x[:, None].expand(-1, 3, -1).flatten(0, 1)


def good_rows_by_search(x, counts):
    ends = counts.cumsum(0)
    row = torch.searchsorted(ends, torch.arange(TOTAL, device=x.device), right=True)
    return x[row]
