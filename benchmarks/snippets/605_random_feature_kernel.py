"""Random Fourier feature regression with a fixed feature shuffle."""
import random

import numpy as np
import torch


class RandomFeatures:
    def __init__(self, dim, count, gamma, device):
        rng = np.random.default_rng(11)
        self.freq = torch.from_numpy(rng.normal(0, np.sqrt(2 * gamma), (dim, count)).astype("float32")).to(device)
        self.phase = torch.from_numpy(rng.uniform(0, 2 * np.pi, count).astype("float32")).to(device)
        order = list(range(count))
        random.shuffle(order)
        self.order = torch.tensor(order, device=device)
        self.norm = float(np.sqrt(2.0 / count))
        self.spread = self.freq.std().item()

    def transform(self, x):
        z = torch.cos(x @ self.freq / self.spread + self.phase) * self.norm
        return z[:, self.order]


class KernelRegressor(RandomFeatures):
    def __init__(self, dim=6, count=64, gamma=0.5, device="cpu", lr=0.2):
        super().__init__(dim, count, gamma, device)
        self.coef = torch.zeros(count, device=device)
        self.lr = lr

    def partial_fit(self, x, y):
        z = self.transform(x)
        err = z @ self.coef - y
        self.coef -= self.lr * (z.t() @ err) / x.shape[0]
        return err.square().mean()


def make(device="cuda"):
    random.seed(3)
    reg = KernelRegressor(device=device)

    def inputs():
        x = torch.randn(32, 6, device=device)
        return x, x.sin().sum(-1)

    return {"fn": reg.partial_fit, "inputs": inputs, "state": lambda: [reg.coef], "kind": "training_step"}
