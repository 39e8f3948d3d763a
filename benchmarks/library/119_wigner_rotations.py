"""e3nn: features rotated by Wigner matrices of random angles."""
# needs: e3nn
import torch
from e3nn import o3


def make(device="cuda"):
    irreps = o3.Irreps("4x0e + 2x1o + 1x2e")
    mix = o3.Linear(irreps, irreps).to(device)

    @torch.no_grad()
    def rotate(features, angles):
        matrix = irreps.D_from_angles(*angles.unbind(-1))
        return torch.einsum("bij,bj->bi", matrix, mix(features))

    return {"fn": rotate, "inputs": lambda: (torch.randn(7, irreps.dim, device=device), torch.rand(7, 3, device=device)),
            "kind": "inference"}
