"""Window attention for images with sizes derived from the input."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def windows(x, size):
    b, h, w, c = x.shape
    assert h % size == 0 and w % size == 0, f"{h}x{w} does not fit {size}"
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)


def unwindows(x, size, h, w):
    b = int(x.shape[0] / (h * w / size / size))
    x = x.view(b, h // size, w // size, size, size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim=24, heads=3, size=4):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.heads, self.size = heads, size

    def forward(self, x):
        h, w = int(x.size(1)), int(x.size(2))
        if x.numel() == 0 or len(x) == 0:
            return x
        win = windows(x, self.size)
        q, k, v = self.qkv(win).view(len(win), -1, 3, self.heads, x.size(-1) // self.heads).permute(2, 0, 3, 1, 4)
        scale = float(q.shape[-1]) ** -0.5 if q.dim() == 4 else 1.0
        steps = max(1, math.ceil(math.log2(win.shape[1])))
        att = (q @ k.transpose(-2, -1) * scale / steps).softmax(-1)
        y = (att @ v).transpose(1, 2).reshape_as(win)
        return x + unwindows(self.out(y), self.size, h, w)


def make(device="cuda"):
    net = nn.Sequential(WindowAttention(), nn.LayerNorm(24), WindowAttention(size=2)).to(device)

    def infer(img):
        with torch.inference_mode():
            y = net(img)
            return F.avg_pool2d(y.permute(0, 3, 1, 2), kernel_size=min(y.shape[1:3]))

    return {"fn": infer, "inputs": lambda: (torch.randn(2, 8, 12, 24, device=device),), "kind": "inference"}
