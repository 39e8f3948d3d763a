"""Pressure solve of a small fluid simulation by Jacobi sweeps between two fields."""
import torch
import torch.nn.functional as F


class PressureSolver:
    SWEEPS = 8

    def __init__(self, size, device):
        self.front = torch.zeros(1, 1, size, size, device=device)
        self.back = torch.zeros_like(self.front)
        self.kernel = torch.tensor([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=torch.float32, device=device).view(1, 1, 3, 3)

    def flip(self):
        self.front, self.back = self.back, self.front

    def sweep(self, divergence):
        around = F.conv2d(F.pad(self.front, (1, 1, 1, 1), mode="replicate"), self.kernel)
        torch.mul(around - divergence, 0.25, out=self.back)
        self.flip()

    def solve(self, divergence):
        for _ in range(self.SWEEPS):
            self.sweep(divergence)
        return self.front


def divergence_of(u, v):
    return (u.roll(-1, -1) - u.roll(1, -1) + v.roll(-1, -2) - v.roll(1, -2)) * 0.5


def make(device="cuda"):
    solver = PressureSolver(10, device)

    def project(u, v):
        p = solver.solve(divergence_of(u, v))
        return u - 0.5 * (p.roll(-1, -1) - p.roll(1, -1)), v - 0.5 * (p.roll(-1, -2) - p.roll(1, -2))

    def inputs():
        return torch.randn(1, 1, 10, 10, device=device), torch.randn(1, 1, 10, 10, device=device)

    return {"fn": project, "inputs": inputs, "state": lambda: [solver.front, solver.back], "kind": "inference"}
