"""builtin-comparison: max, min, sorted, any and all of Python compare GPU tensors one by one."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE), torch.randn(4, 8, device=DEVICE))


def norm_of(tensors):
    return max(t.abs().max() for t in tensors)  # CG206


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(8, 1) for _ in range(3))

    def losses(self, x):
        return [head(x).abs().mean() for head in self.heads]

    def forward(self, x):
        ranked = sorted(self.losses(x))  # CG206
        return ranked[0] + ranked[-1] * 0.1


multi = MultiTask().to(DEVICE).requires_grad_(False)


def bad_worst_gradient(x, y):
    return x / norm_of([x, y])


def bad_ranked_losses(x, y):
    return multi(x) + y


def bad_floor_of_scale(x, y):
    scale = max(1e-6, y.std())  # CG206
    hardest = min([x, y], key=lambda t: t.mean())  # CG206
    return hardest / scale


def bad_any_row_is_finite(x, y):
    largest = max
    ok = all(torch.isfinite(row).all() for row in x)  # CG206
    hot = any(y.flatten() > 9)  # CG206
    return largest(x.sum(), y.sum()) * (ok + hot)  # CG206


def good_reductions_of_torch(x, y):
    norm = torch.stack([x.abs().max(), y.abs().max()]).max()
    scale = y.std().clamp(min=1e-6)
    return torch.maximum(x, y) / norm / scale, torch.isfinite(x).all()


def good_builtins_over_sizes(x, y):
    width = max(t.shape[-1] for t in (x, y))
    rows = min(len(x), y.size(0), 3)
    widest = sorted([x, y], key=lambda t: t.shape[0])[-1]
    return widest[:rows] * max(x.shape) + width


def good_builtins_over_properties(x, y):
    tensors = [x, y, None]
    if any(t is None for t in tensors) and all(isinstance(t, torch.Tensor) for t in (x, y)):
        x = x + 1
    if all(t.is_contiguous() for t in (x, y)) and any(name == "w" for name in ("v", "w")):
        y = y * 2
    return x + y


def good_sum_of_losses(x, y):
    losses = {name: t.abs().mean() for name, t in zip("ab", (x, y), strict=True)}
    return sum(losses.values()), [losses[k] for k in sorted(losses)], x.max(), x.any()
