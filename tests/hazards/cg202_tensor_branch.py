"""tensor-branch: Python chooses its way by the value of a GPU tensor."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(8, 16, device=DEVICE), torch.rand(8, 16, device=DEVICE))


def overflowed(t):
    return ~torch.isfinite(t).all()


class AdaptiveDepth(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def confident(self, h):
        return h.softmax(-1).amax() > 0.99

    def forward(self, h):
        for layer in self.layers:
            h = torch.tanh(layer(h))
            if self.confident(h):  # CG202
                break
        return h


class Block(nn.Module):
    def __init__(self, use_gate):
        super().__init__()
        self.fc = nn.Linear(16, 16)
        self.gate = nn.Linear(16, 16) if use_gate else None
        self.cache = {}

    def forward(self, x, mask=None):
        y = self.fc(x)
        if self.gate is not None and mask is None:
            y = y * self.gate(x).sigmoid()
        if not self.cache or "rope" in self.cache:
            y = y + 1
        return y if self.training else y * 2


adaptive = AdaptiveDepth().to(DEVICE).requires_grad_(False)
block = Block(use_gate=True).to(DEVICE).requires_grad_(False)


def bad_skip_when_overflowed(x, w):
    assert (w >= 0).all(), "weights must not be negative"  # CG202
    if overflowed(x):  # CG202
        return torch.zeros_like(x)
    return x * w


def bad_early_exit(x, w):
    return adaptive(x) + w


def bad_iterate_until_converged(x, w):
    for _ in range(20):
        step = x - torch.cos(x)
        x = x - 0.5 * step
        if not (step.abs() > 1e-2).any():  # CG202
            break
    while w.amax() > 0.25:  # CG202
        w = w / 2
    return x + w


def bad_expression_forms(x, w):
    gain = 1.0 if x.mean() > 0 else -1.0  # CG202
    rows = [r for r in w if r.sum() > 0]  # CG202
    inside = 0 < w.mean() < 1  # CG202
    both = x.amax() > 9 and w.amax() > 9  # CG202
    match w.argmin():  # CG202
        case 0:
            gain = 2.0
    return x * gain + len(rows) + inside + both


def good_select_on_device(x, w):
    y = torch.where(overflowed(x), torch.zeros_like(x), x * w)
    both = (x > 0) & (w < 0.5) | ~(w > 0.9)
    return y * both


def good_branch_on_structure(x, w):
    mask = None
    if x.shape[0] > 4 and x.dtype in (torch.float32, torch.float16) and x.dim() == 2:
        x = x + 1
    assert isinstance(w, torch.Tensor)
    parts = [t for t in (x, w, mask) if t is not None and t.numel() > 0]
    return sum(parts) if parts else x


def good_block_with_flags(x, w):
    return block(x) * (w if w is not None and w.requires_grad is False else 1.0)


def good_assert_on_device(x, w):
    torch._assert_async((w >= 0).all())
    return x * w
