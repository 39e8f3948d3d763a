"""linear_operator: conjugate gradients on a shifted kernel matrix."""
# needs: linear_operator
import torch
from linear_operator.utils.linear_cg import linear_cg


def make(device="cuda"):
    points = torch.rand(40, 2, device=device)
    matrix = (-torch.cdist(points, points).square()).exp() + 0.5 * torch.eye(40, device=device)

    @torch.no_grad()
    def solve(right):
        return linear_cg(matrix.matmul, right, max_iter=30, tolerance=1e-3, max_tridiag_iter=0)

    return {"fn": solve, "inputs": lambda: (torch.randn(40, 3, device=device),), "kind": "inference"}
