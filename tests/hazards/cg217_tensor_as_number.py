"""tensor-as-number: a GPU tensor is given where the operation takes a Python number."""

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(8, 16, device=DEVICE), torch.rand((), device=DEVICE) * 0.5 + 0.1)


def constant(shape, value):
    return torch.full(shape, value, device=DEVICE)  # CG217


class Momentum:
    def __init__(self, like):
        self.decay = torch.tensor(0.9, device=DEVICE)
        self.base = torch.zeros_like(like)

    def mix(self, x):
        return torch.add(self.base, x, alpha=self.decay)  # CG217

    def mix_on_device(self, x):
        return torch.add(self.base, x * self.decay, alpha=0.5)


class Activation(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.2))

    def forward(self, x):
        return F.leaky_relu(x, self.slope.detach())  # CG217

    def prelu(self, x):
        return torch.where(x > 0, x, x * self.slope.detach())


momentum = Momentum(torch.empty(8, 16, device=DEVICE))
activation = Activation().to(DEVICE)


def bad_learned_slope(x, p):
    return activation(x) * p


def bad_moving_average(x, p):
    return momentum.mix(x) + p


def bad_mask_with_minimum(x, p):
    filled = x.masked_fill(x > 1, x.amin())  # CG217
    return filled + torch.full_like(x, p) + constant((8, 16), x.mean())  # CG217


def bad_scheduled_noise(x, p):
    dropped = F.dropout(x, p)  # CG217
    grid = torch.arange(0, p, 0.05, device=x.device)  # CG217
    ramp = torch.linspace(0, p, 16, device=x.device)  # CG217
    return dropped + ramp + grid.sum()


def good_tensor_operands(x, p):
    y = x.clamp(min=p).pow(2) * p + x.mean()
    return torch.where(x > 1, x.amin(), y), torch.maximum(x, p), activation.prelu(x)


def good_fill_on_device(x, p):
    level = torch.empty_like(x).fill_(p)
    ramp = torch.linspace(0, 1, x.shape[-1], device=x.device) * p
    return level + ramp + momentum.mix_on_device(x) + p.expand(8, 16)


def good_python_numbers(x, p):
    half = 0.5 if x.shape[0] > 4 else 0.25
    y = F.leaky_relu(x, half).masked_fill(x > 1, -half) + torch.full_like(x, half)
    return torch.add(y, p, alpha=half) + torch.arange(x.shape[-1], device=x.device)


def good_noise_by_threshold(x, p):
    keep = x.abs() > p
    return x * keep / (1 - p), F.dropout(x, 0.0)
