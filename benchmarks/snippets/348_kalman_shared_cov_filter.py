"""Kalman filter for many tracks with a common covariance."""
import torch


class Kalman:
    def __init__(self, tracks, dt, device):
        eye = torch.eye(4)
        f = eye.clone()
        f[0, 2] = f[1, 3] = dt
        self.F = f.to(device)
        self.H = eye[:2].to(device)
        self.Q = (0.01 * eye).to(device)
        self.R = (0.5 * torch.eye(2)).to(device)
        self.I = eye.to(device)
        self.mean = torch.zeros(tracks, 4, device=device)
        self.cov = eye.clone().to(device)

    def predict(self):
        m = self.mean @ self.F.t()
        p = self.F @ self.cov @ self.F.t() + self.Q
        return m, p

    def gain(self, p):
        s = self.H @ p @ self.H.t() + self.R
        chol, _ = torch.linalg.cholesky_ex(s)
        return torch.cholesky_solve(self.H @ p, chol).t(), s

    def update(self, z, seen):
        m, p = self.predict()
        k, s = self.gain(p)
        resid = z - m @ self.H.t()
        self.mean.copy_(torch.where(seen.view(-1, 1), m + resid @ k.t(), m))
        self.cov.copy_((self.I - k @ self.H) @ p)
        dist = (resid @ torch.linalg.inv_ex(s).inverse * resid).sum(-1)
        return self.mean.clone(), dist


def make(device="cuda"):
    kf = Kalman(tracks=9, dt=0.1, device=device)

    def inputs():
        return torch.randn(9, 2, device=device), torch.rand(9, device=device) > 0.3

    return {"fn": kf.update, "inputs": inputs, "state": lambda: [kf.mean, kf.cov], "kind": "inference"}
