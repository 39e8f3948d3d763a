"""container-growth: lists of tensors grow once, at capture; the graph reads the entries of that moment."""

import collections

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


class GrowingCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.keys = []
        self.values = []

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys.append(k)  # CG302
        self.values.append(v)  # CG302
        scores = q @ torch.cat(self.keys).T  # CG302
        return scores.softmax(-1) @ torch.cat(self.values)  # CG302


class StaticCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(16, 8))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.keys.index_copy_(0, self.position, x[:1])
        self.position.add_(1)
        return x @ self.keys.T


class DeepSupervision(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.hidden = []

    def forward(self, x):
        self.hidden.clear()
        for layer in self.layers:
            x = layer(x)
            self.hidden.append(x)
        return torch.stack(self.hidden).mean(0)


growing = GrowingCache().to(DEVICE).requires_grad_(False)
static = StaticCache().to(DEVICE)
supervised = DeepSupervision().to(DEVICE).requires_grad_(False)
window = collections.deque(maxlen=4)
previous = {"frame": torch.zeros(4, 8, device=DEVICE)}
reference = {"frame": torch.zeros(4, 8, device=DEVICE)}


def state():
    return [static.keys, reference["frame"]]


def remember(x):
    window.append(x.mean(0))  # CG302
    return torch.stack(tuple(window)).mean(0)  # CG302


def bad_growing_cache(x):
    return growing(x)


def bad_sliding_window(x):
    return x - remember(x)


def bad_previous_frame(x):
    motion = x - previous["frame"]  # CG302
    previous["frame"] = x.clone()  # CG302
    return motion


def good_static_cache(x):
    return static(x)


def good_list_cleared_first(x):
    return supervised(x)


def good_previous_frame_copied(x):
    motion = x - reference["frame"]
    reference["frame"].copy_(x)
    return motion
