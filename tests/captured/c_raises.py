import sys

import torch


def step(x):
    step.n = getattr(step, "n", 0) + 1
    if step.n == 2:
        raise ValueError("bad batch")
    return x * 2


for _ in range(20):
    y = step(torch.randn(8, 16, device="cuda"))
    print("mean", y.mean().item())
