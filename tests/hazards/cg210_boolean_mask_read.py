"""boolean-mask-read: a boolean mask picks elements, and how many is known only on the GPU."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(16, 8, device=DEVICE), torch.randint(0, 8, (16,), device=DEVICE))


def keep_valid(values, mask):
    return values[mask]  # CG210


class MaskedLoss(nn.Module):
    def __init__(self, pad):
        super().__init__()
        self.pad = pad
        self.register_buffer("active", torch.arange(8) % 2 == 0)

    def forward(self, logits, labels):
        mask = labels.ne(self.pad)
        return -logits.log_softmax(-1)[mask].mean()  # CG210

    def columns(self, logits):
        return logits[:, self.active].sum(-1)  # CG210

    def weighted(self, logits, labels):
        mask = labels.ne(self.pad)
        token_loss = -logits.log_softmax(-1).gather(1, labels[:, None]).squeeze(1)
        return (token_loss * mask).sum() / mask.sum().clamp(min=1)


criterion = MaskedLoss(pad=0).to(DEVICE)


def bad_mean_over_valid(x, labels):
    return criterion(x, labels) + criterion.columns(x)


def bad_keep_helper(x, labels):
    return keep_valid(x, ~torch.isnan(x)).sum() + labels


def bad_scale_outliers(x, labels):
    y = x.clone()
    outlier = y.abs() > 1.5
    y[outlier] *= 0.5  # CG210
    return y + labels[:, None]


def bad_write_tensor(x, labels):
    y = x.clone()
    y[x < 0] = x.mean()  # CG210
    positive = x.masked_select(x > 0)  # CG210
    return y + labels[:, None], positive.sum()


def good_weighted_loss(x, labels):
    return criterion.weighted(x, labels)


def good_write_python_number(x, labels):
    y = x.clone()
    y[x < 0] = 0.0
    y[~torch.isfinite(y)] = -1.0
    return y.masked_fill(y > 2, 2.0) + labels[:, None]


def good_index_by_integers(x, labels):
    order = (x > 0).sum(-1).argsort(stable=True)
    picked = x[order][:, None, :4]
    return picked, x[torch.arange(16, device=x.device), labels]


def good_select_with_where(x, labels):
    mask = x.abs() > 1.5
    y = torch.where(mask, x * 0.5, x).masked_scatter(mask, x * 2)
    return y * mask[0] + mask[:, :2].sum() + labels[:, None]
