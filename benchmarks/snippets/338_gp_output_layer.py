"""Gaussian process regression on top of learned features."""
import math

import torch
from torch import nn


class RBF(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.log_ls = nn.Parameter(torch.tensor(math.log(scale)))

    def forward(self, a, b):
        return torch.exp(-0.5 * torch.cdist(a, b).square() / self.log_ls.exp() ** 2)


class GPHead(nn.Module):
    def __init__(self, noise=0.1):
        super().__init__()
        self.kernel = RBF(2.0)
        self.noise = noise

    def factor(self, z):
        k = self.kernel(z, z)
        k = k + self.noise * torch.eye(z.shape[0], device=z.device)
        return torch.linalg.cholesky(k)

    def forward(self, z, y, zq):
        chol = self.factor(z)
        alpha = torch.cholesky_solve(y.unsqueeze(-1), chol)
        kq = self.kernel(zq, z)
        mean = (kq @ alpha).squeeze(-1)
        v = torch.linalg.solve_triangular(chol, kq.t(), upper=False)
        return mean, 1.0 + self.noise - v.square().sum(0)


def make(device="cuda"):
    feat = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 8)).to(device)
    head = GPHead().to(device)

    def posterior(x, y, xq):
        with torch.no_grad():
            return head(feat(x), y, feat(xq))

    def inputs():
        return (torch.randn(40, 6, device=device), torch.randn(40, device=device),
                torch.randn(10, 6, device=device))

    return {"fn": posterior, "inputs": inputs, "kind": "inference"}
