"""GPyTorch kernels: a periodic times Matern kernel between fixed anchors and fresh points, applied to weights."""
# needs: gpytorch
import gpytorch
import torch


def make(device="cuda"):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.PeriodicKernel() * gpytorch.kernels.MaternKernel(nu=2.5)).to(device)
    anchors, weights = torch.rand(40, 3, device=device), torch.randn(40, 2, device=device)

    @torch.no_grad()
    def evaluate(points):
        return kernel(points, anchors).to_dense() @ weights

    return {"fn": evaluate, "inputs": lambda: (torch.rand(16, 3, device=device),), "kind": "inference"}
