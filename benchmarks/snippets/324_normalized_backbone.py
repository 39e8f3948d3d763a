"""Segmentation head behind a channel normalisation wrapper."""
import functools

import torch
from torch import nn

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def standardized(mean, std):
    def wrap(fn):
        @functools.wraps(fn)
        def inner(self, img, *args):
            m = torch.tensor(mean, device=img.device).view(-1, 1, 1)
            s = img.new_tensor(std).view(-1, 1, 1)
            return fn(self, (img - m) / s, *args)
        return inner
    return wrap


class Segmenter(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.down = nn.Conv2d(3, 16, 4, stride=4)
        self.blocks = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))
        self.up = nn.ConvTranspose2d(16, classes, 4, stride=4)

    @standardized(MEAN, STD)
    def forward(self, img):
        h = self.down(img)
        for block in self.blocks:
            h = h + torch.relu(block(h))
        return self.up(h)


def make(device="cuda"):
    net = Segmenter().to(device).eval()

    def predict(img):
        with torch.no_grad():
            logits = net(img)
        return logits.argmax(dim=1), logits.logsumexp(dim=1)

    def inputs():
        return (torch.rand(2, 3, 32, 32, device=device),)

    return {"fn": predict, "inputs": inputs, "kind": "inference"}
