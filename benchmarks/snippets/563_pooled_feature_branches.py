"""Hand-made image features computed by a small pool of workers."""
from concurrent.futures import ThreadPoolExecutor

import torch


def gradient_energy(img):
    dx = img[..., :, 1:] - img[..., :, :-1]
    dy = img[..., 1:, :] - img[..., :-1, :]
    return (dx * dx)[..., :-1, :] + (dy * dy)[..., :, :-1]


def contrast(img):
    return (img - img.mean(dim=(-2, -1), keepdim=True))[..., :-1, :-1]


class Features:
    def __init__(self, *branches):
        self.branches = branches
        self.pool = ThreadPoolExecutor(max_workers=1)

    def __call__(self, img):
        jobs = [self.pool.submit(branch, img) for branch in self.branches]
        return torch.stack([job.result() for job in jobs])


def make(device="cuda"):
    features = Features(gradient_energy, contrast)
    mixing = torch.linspace(0.5, 1.5, 2, device=device).view(2, 1, 1, 1)

    def describe(img):
        return (features(img) * mixing).sum(0)

    def inputs():
        return (torch.rand(2, 9, 9, device=device),)

    return {"fn": describe, "inputs": inputs, "kind": "inference"}
