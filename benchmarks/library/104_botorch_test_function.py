"""BoTorch's Hartmann function, and a projected gradient step towards its minimum."""
# needs: botorch
import torch
from botorch.test_functions import Hartmann


def make(device="cuda"):
    problem = Hartmann(dim=6).to(device)

    def improve(x):
        x = x.detach().requires_grad_()
        value = problem(x)
        (gradient,) = torch.autograd.grad(value.sum(), x)
        return (x - 0.05 * gradient).detach().clamp(0, 1), value.detach()

    return {"fn": improve, "inputs": lambda: (torch.rand(32, 6, device=device),), "kind": "inference"}
