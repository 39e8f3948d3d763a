"""A call whose weights take over half of the GPU's memory, so that two copies do not fit."""

import torch


def make():
    """Return the call and its inputs."""
    total = torch.cuda.get_device_properties(0).total_memory
    side = 8192
    weights = torch.zeros(int(0.55 * total) // (4 * side), side, device="cuda")
    weights.view(-1)[::4097].fill_(0.5)

    def call(x):
        rows = weights.shape[0] // 4
        return sum((x @ weights[part * rows : (part + 1) * rows].T).square().mean() for part in range(4))

    return {"fn": call, "inputs": lambda: (torch.randn(2, side, device="cuda"),)}
