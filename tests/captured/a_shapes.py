import torch


def step(x, y, idx, scale):
    table = torch.arange(160, device=x.device, dtype=x.dtype).view(10, 16)
    return (x * scale + y.float() + table[idx]).sum(1)


def kwonly(x, *, scale=2.0):
    return x * scale
