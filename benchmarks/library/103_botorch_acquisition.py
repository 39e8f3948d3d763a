"""BoTorch: log expected improvement of candidates under a single-task model."""
# needs: botorch
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.models import SingleTaskGP


def make(device="cuda"):
    x = torch.rand(12, 2, device=device, dtype=torch.float64)
    y = (x - 0.4).square().sum(-1, keepdim=True).neg()
    model = SingleTaskGP(x, y).to(device).eval()
    acquisition = LogExpectedImprovement(model, best_f=y.max())

    @torch.no_grad()
    def score(candidates):
        return acquisition(candidates)

    return {"fn": score, "inputs": lambda: (torch.rand(16, 1, 2, device=device, dtype=torch.float64),), "kind": "inference"}
