"""Refreshing normalisation statistics of an averaged convolutional net."""
import torch
from torch import nn


def conv_block(cin, cout, norm):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), norm(cout), nn.ReLU())


def cumulative(features):
    return nn.BatchNorm2d(features, momentum=None)


class Averaged(nn.Module):
    def __init__(self, widths=(3, 8, 16)):
        super().__init__()
        self.body = nn.Sequential(*[
            conv_block(a, b, norm=cumulative) for a, b in zip(widths, widths[1:])
        ])
        self.head = nn.Linear(widths[-1], 4)

    def forward(self, img):
        return self.head(self.body(img).amax(dim=(2, 3)))

    def stats(self):
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                yield m.running_mean
                yield m.running_var


def make(device="cuda"):
    net = Averaged().to(device).train()

    @torch.no_grad()
    def refresh(img):
        return net(img).softmax(-1)

    def inputs():
        return (torch.randn(6, 3, 20, 20, device=device) * 2 + 0.5,)

    return {"fn": refresh, "inputs": inputs, "state": lambda: list(net.stats()), "kind": "inference"}
