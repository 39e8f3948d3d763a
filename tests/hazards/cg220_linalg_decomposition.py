"""linalg-decomposition: a decomposition whose GPU library cannot be captured."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    a = torch.randn(64, 64, device=DEVICE)
    return (a @ a.T / 64 + torch.eye(64, device=DEVICE),)


def spectral_norm(w):
    return torch.linalg.svdvals(w)[0]  # CG220


class Shampoo:
    def root(self, stat):
        values, vectors = torch.linalg.eigh(stat)  # CG220
        return vectors @ torch.diag(values.clamp(min=1e-6) ** -0.25) @ vectors.T

    def newton_schulz(self, stat):
        x = stat / torch.linalg.matrix_norm(stat)
        for _ in range(5):
            x = 1.5 * x - 0.5 * x @ x.T @ x
        return x


class Rotation(nn.Module):
    def __init__(self):
        super().__init__()
        self.skew = nn.Parameter(torch.randn(64, 64) * 0.01)

    def forward(self, x):
        return torch.linalg.matrix_exp(self.skew - self.skew.T) @ x  # CG220

    def series(self, x):
        a = self.skew - self.skew.T
        term = total = x
        for n in range(1, 6):
            term = a @ term / n
            total = total + term
        return total


class Report:
    """Method names of torch.linalg on an object that does something else."""

    def rank(self):
        return 4

    def svd(self):
        return 0.5


shampoo = Shampoo()
rotation = Rotation().to(DEVICE).requires_grad_(False)
report = Report()


def bad_spectral_norm(a):
    return a / spectral_norm(a)


def bad_preconditioner(a):
    return shampoo.root(a) @ a


def bad_rotation(a):
    return rotation(a)


def bad_low_rank_update(a):
    u, s, vh = torch.linalg.svd(a, full_matrices=False)  # CG220
    pinv = a.pinverse()  # CG220
    rank = torch.linalg.matrix_rank(a)  # CG220
    worst = torch.linalg.cond(a)  # CG220
    fit = torch.linalg.lstsq(a, a).solution  # CG220
    return u * s @ vh, pinv, rank, worst, fit, torch.linalg.eigvals(a).abs()  # CG220


def good_iterated_norm(a):
    v = torch.ones(64, 1, device=a.device)
    for _ in range(8):
        v = a @ v
        v = v / torch.linalg.vector_norm(v)
    return (v.T @ a @ v).squeeze(), shampoo.newton_schulz(a)


def good_series(a):
    return rotation.series(a)


def good_capturable_functions(a):
    r = torch.linalg.qr(a)[1].abs()
    return r, torch.linalg.det(a / 2), torch.linalg.slogdet(a)[1], torch.linalg.matrix_power(a / 20, 3)


def good_other_names(a):
    return torch.linalg.norm(a) * report.rank() + a.norm() * report.svd()
