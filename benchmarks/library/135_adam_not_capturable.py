"""A NeRF-like MLP on positional encodings with Adam as it comes."""
# needs: einops
import torch
from einops import rearrange


def encode(points, levels=4):
    angles = points[..., None] * 2.0 ** torch.arange(levels, device=points.device)
    return rearrange(torch.stack([angles.sin(), angles.cos()]), "s n c l -> n (c l s)")


def make(device="cuda"):
    field = torch.nn.Sequential(torch.nn.Linear(24, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).to(device)
    optimizer = torch.optim.Adam(field.parameters(), lr=1e-3)

    def step(points, colours):
        raw = field(encode(points))
        weight = 1 - (-raw[:, :1].relu()).exp()
        loss = torch.nn.functional.mse_loss(weight * raw[:, 1:].sigmoid(), colours)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.rand(64, 3, device=device), torch.rand(64, 3, device=device)),
            "kind": "training_step"}
