"""tensor-as-size: a GPU tensor says how large a result is."""

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda"
LONGEST = 8


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE), torch.randint(1, 5, (4,), device=DEVICE))


def pad_to(x, width):
    return F.pad(x, (0, width - x.shape[-1]))  # CG218


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.register_buffer("groups", torch.tensor(2))

    def forward(self, x):
        h = self.fc(x).view(self.groups, -1)  # CG218
        return h.softmax(-1).view(x.shape[0], -1)

    def masked(self, x, lengths):
        mask = torch.arange(x.shape[-1], device=x.device) < lengths[:, None]
        return self.fc(x).view(len(lengths), -1) * mask


packed = Packed().to(DEVICE).requires_grad_(False)


def bad_grouped_view(x, lengths):
    return packed(x) + lengths[:, None]


def bad_pad_to_longest(x, lengths):
    return pad_to(x, lengths.max() + 8)


def bad_workspace(x, lengths):
    longest = lengths.max()
    scratch = torch.zeros(longest, 8, device=x.device)  # CG218
    copies = x.repeat(longest, 1)  # CG218
    wide = x[:, None, :].expand(4, longest, 8)  # CG218
    return scratch.sum() + copies.sum() + wide.sum()


def bad_resize(x, lengths):
    size = lengths.sum() + 4
    image = F.interpolate(x[None, None], size=(size, 8))  # CG218
    first = x.split(lengths.max(), dim=0)[0]  # CG218
    return image.mean() + first.sum()


def good_mask_of_fixed_width(x, lengths):
    return packed.masked(x, lengths)


def good_sizes_of_shapes(x, lengths):
    scratch = torch.zeros(lengths.size(0), LONGEST, device=x.device)
    wide = x[:, None, :].expand(*lengths.shape, 2, -1)
    padded = F.pad(x, (0, 2 * LONGEST - x.shape[-1]))
    return x.view(len(lengths), -1) + scratch + wide.sum(1), padded


def good_sizes_of_other_tensors(x, lengths):
    rows = lengths[:, None].expand_as(x) + torch.zeros_like(lengths)[:, None]
    return x.new_zeros(rows.shape) + rows, x.view_as(rows), x.view(torch.int32), x.repeat(lengths.dim(), 1)


def good_numbers(x, lengths):
    image = F.interpolate(x[None, None], size=(LONGEST, LONGEST))
    first, second = x.split(2, dim=0)
    return image, first + second, torch.zeros(4, 8, device=x.device) + lengths[:, None]
