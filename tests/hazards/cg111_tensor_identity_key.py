"""tensor-identity-key: addresses and version counters are Python numbers, read once at capture."""

import torch
from torch import nn

DEVICE = "cuda"
kept = []


def inputs():
    """Fresh arguments, all of them kept, so that each one has an address of its own."""
    kept.append(torch.randn(4, 8, device=DEVICE))
    return (kept[-1],)


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randn(4, 8))

    def forward(self, x):
        self.codes.lerp_(x, 0.3)
        if self.codes._version % 3 == 0:  # CG111
            return self.codes / self.codes.norm()
        return self.codes.clone()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.factors = {(8, torch.float32): 2.0}

    def forward(self, x):
        factor = self.factors[x.shape[-1], x.dtype]
        return self.second(self.first(x)) * factor


codebook = Codebook().to(DEVICE)
scaled = Scaled().to(DEVICE).requires_grad_(False)


def salt(x):
    return (x.data_ptr() >> 9) % 61  # CG111


def bad_version_of_a_buffer(x):
    return codebook(x)


def bad_salt_from_the_address(x):
    return x + salt(x)


def bad_identity_as_seed(x):
    slot = id(x) // 16 % 97  # CG111
    return torch.sin(x * slot)


def good_shape_and_dtype_key(x):
    return scaled(x)


def good_is_comparison(x):
    h = x.contiguous()
    if h is x:
        return h * 2
    return h + 1


def good_unused_address(x):
    key = (x.data_ptr(), x._version)
    del key
    return x.relu()
