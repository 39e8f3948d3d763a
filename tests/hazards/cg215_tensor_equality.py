"""tensor-equality: two GPU tensors are compared to one Python bool."""

import math

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(8, 16, device=DEVICE), torch.randn(8, 16, device=DEVICE))


def unchanged(a, b):
    return torch.allclose(a, b, atol=1e-5)  # CG215


class FixedPoint(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x):
        z = torch.zeros_like(x)
        for _ in range(4):
            new = torch.tanh(self.fc(z) * 0.1 + x)
            if unchanged(new, z):
                break
            z = new
        return z

    def with_freezing(self, x):
        z = torch.zeros_like(x)
        for _ in range(4):
            new = torch.tanh(self.fc(z) * 0.1 + x)
            done = torch.isclose(new, z, atol=1e-5).all()
            z = torch.where(done, z, new)
        return z


class Settings:
    """Compares host values only."""

    def __init__(self, width):
        self.width = width

    def equal(self, other):
        return self.width == other.width

    def allclose(self, other):
        return math.isclose(self.width, other.width)


solver = FixedPoint().to(DEVICE).requires_grad_(False)
small, large = Settings(16), Settings(32)
stack = nn.Transformer(16, 4, 1, 1, 32, dropout=0.0).to(DEVICE).requires_grad_(False)
causal = nn.Transformer.generate_square_subsequent_mask(8, device=DEVICE)


def bad_stop_when_unchanged(x, y):
    return solver(x) + y


def bad_skip_equal_inputs(x, y):
    return x if torch.equal(x, y) else x - y  # CG215


def bad_methods_of_tensor(x, y):
    residual = x - y
    flag = residual.equal(y) or residual.allclose(x)  # CG215
    same = torch.Tensor.equal
    return residual * (1 + flag + same(x, y))  # CG215


def bad_target_mask(x, y):
    return stack(x[:, None], y[:, None], tgt_mask=causal)  # CG215


def bad_source_mask(x, y):
    return stack(x[:, None], y[:, None], causal)  # CG215


def good_target_mask_that_is_told(x, y):
    return stack(x[:, None], y[:, None], tgt_mask=causal, tgt_is_causal=True)


def good_source_and_memory_masks(x, y):
    return stack(x[:, None], y[:, None], src_mask=causal, src_is_causal=False, memory_mask=causal)


def good_freeze_on_device(x, y):
    return solver.with_freezing(x) + y


def good_elementwise(x, y):
    same = torch.eq(x, y) | (x == y) | torch.isclose(x, y)
    return torch.where(same, x, y), x.eq(y).all()


def good_shapes_and_settings(x, y):
    if x.shape == y.shape and not small.equal(large) and math.isclose(x.shape[-1], 16.0):
        return x + y
    return x * (1 + small.allclose(large))
