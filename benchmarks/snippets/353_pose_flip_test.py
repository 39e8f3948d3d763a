"""Keypoint heatmaps averaged over the image and its mirror image."""
from functools import partial

import torch
from torch import nn

PAIRS = [0, 2, 1, 4, 3, 6, 5, 7]


def mirror(maps, order):
    return maps.flip(-1)[:, order]


def soft_argmax(maps):
    n, k, h, w = maps.shape
    p = maps.flatten(2).softmax(-1).view(n, k, h, w)
    ys = torch.linspace(0, 1, h, device=maps.device)
    xs = torch.linspace(0, 1, w, device=maps.device)
    return torch.stack([(p.sum(2) * xs).sum(-1), (p.sum(3) * ys).sum(-1)], dim=-1)


class HeatmapNet(nn.Module):
    def __init__(self, joints=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, joints, 3, padding=1),
        )

    def forward(self, img):
        return self.net(img)


class FlipTest:
    def __init__(self, net):
        self.net = net
        self.unflip = partial(mirror, order=PAIRS)

    @torch.no_grad()
    def __call__(self, img):
        direct = self.net(img)
        mirrored = self.unflip(self.net(img.flip(-1)))
        return soft_argmax(0.5 * (direct + mirrored))


def make(device="cuda"):
    predictor = FlipTest(HeatmapNet().to(device).eval())
    return {
        "fn": predictor,
        "inputs": lambda: (torch.rand(4, 3, 24, 24, device=device),),
        "kind": "inference",
    }
