"""BoTorch Sobol candidates, scored by a surrogate network."""
# needs: botorch
import torch
from botorch.utils.sampling import draw_sobol_samples


def make(device="cuda"):
    bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]], device=device)
    surrogate = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(device)

    @torch.no_grad()
    def best(shift):
        candidates = draw_sobol_samples(bounds=bounds, n=16, q=1)[:, 0] + shift
        return candidates[surrogate(candidates)[:, 0].argmax()]

    return {"fn": best, "inputs": lambda: (torch.rand(3, device=device) * 0.1,), "kind": "sampler"}
