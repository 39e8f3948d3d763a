"""Sparse depth supervision with a scale-invariant log error."""
import torch
from torch import nn


def log_error(pred, target, lam=0.85):
    valid = target > 0
    d = pred[valid].clamp(min=1e-3).log() - target[valid].log()
    return ((d ** 2).mean() - lam * d.mean() ** 2).clamp(min=0).sqrt()


def smoothness(depth, img):
    dx = (depth[..., 1:] - depth[..., :-1]).abs()
    ix = (img[..., 1:] - img[..., :-1]).abs().mean(1, keepdim=True)
    return (dx * torch.exp(-ix)).mean()


class DepthNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Conv2d(3, 12, 5, padding=2)
        self.mid = nn.Conv2d(12, 12, 3, padding=1, groups=4)
        self.out = nn.Conv2d(12, 1, 1)

    def forward(self, img):
        h = torch.relu(self.enc(img))
        h = h + torch.relu(self.mid(h))
        return nn.functional.softplus(self.out(h))


def make(device="cuda"):
    net = DepthNet().to(device)
    params = list(net.parameters())

    def step(img, lidar):
        depth = net(img)
        loss = log_error(depth, lidar) + 0.1 * smoothness(depth, img)
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            torch._foreach_add_(params, grads, alpha=-1e-2)
        return loss.detach()

    def inputs():
        img = torch.rand(2, 3, 24, 24, device=device)
        lidar = torch.rand(2, 1, 24, 24, device=device) * 10
        lidar = lidar * (torch.rand_like(lidar) > 0.7)
        return img, lidar

    return {"fn": step, "inputs": inputs, "state": lambda: params, "kind": "training_step"}
