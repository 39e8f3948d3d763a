"""linalg-error-check: the function looks on the CPU whether the factorisation worked."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    a = torch.randn(64, 64, device=DEVICE)
    return (a @ a.T / 64 + torch.eye(64, device=DEVICE), torch.randn(64, 4, device=DEVICE))


def whiten(cov, x):
    root = torch.linalg.cholesky(cov)  # CG219
    return torch.linalg.solve_triangular(root, x, upper=False)


class KalmanFilter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.eye(64))

    @property
    def solve(self):
        return torch.linalg.solve

    def gain(self, p, z):
        s = self.h @ p @ self.h.T
        return self.solve(s, z)  # CG219

    def gain_without_check(self, p, z):
        s = self.h @ p @ self.h.T
        solution, info = torch.linalg.solve_ex(s, z)
        return solution, info


class Jacobi:
    """An own solver: products only."""

    def solve(self, a, b):
        d = a.diagonal()[:, None]
        x = b / d
        for _ in range(3):
            x = x + 0.1 * (b - a @ x) / d
        return x

    def inv(self, a):
        return 1.0 / a.diagonal()


kalman = KalmanFilter().to(DEVICE)
jacobi = Jacobi()


def bad_whitening(a, b):
    return whiten(a, b)


def bad_kalman_gain(a, b):
    return kalman.gain(a, b)


def bad_normal_equations(a, b):
    return torch.linalg.inv(a) @ b  # CG219


def bad_older_names(a, b):
    inverse = torch.inverse(a)  # CG219
    again = a.inverse()  # CG219
    factor = torch.Tensor.cholesky(a)  # CG219
    return (inverse + again + factor) @ b


def good_without_check(a, b):
    inverse, info = torch.linalg.inv_ex(a)
    return inverse @ b, info, kalman.gain_without_check(a, b)


def good_factor_and_substitute(a, b):
    factor = torch.linalg.cholesky_ex(a).L
    return torch.cholesky_solve(b, factor), torch.linalg.solve_triangular(factor, b, upper=False)


def good_own_solver(a, b):
    return jacobi.solve(a, b), jacobi.inv(a)


def good_diagonal_inverse(a, b):
    return b / a.diagonal()[:, None], a.reciprocal().sum()
