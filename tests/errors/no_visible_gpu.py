"""no-visible-gpu: the process sees no GPU."""

import os

import torch
from torch import nn


def fails() -> None:
    """The scheduler gave the job no device: the variable is empty."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.cuda.make_graphed_callables(nn.Linear(8, 8).cuda(), (torch.ones(4, 8, device="cuda"),))


def works() -> None:
    """Asked first: a graph where there is a GPU, the same step eagerly where there is none."""
    if not torch.cuda.is_available():
        assert (torch.ones(8) * 2).eq(2).all()
        return
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x * 2
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
