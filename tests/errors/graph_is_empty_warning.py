"""graph-is-empty-warning: nothing of the region ran on the capture stream."""

import torch
from torch import nn


def fails() -> None:
    """The model was never moved to the GPU: its work runs on the CPU and is not recorded."""
    torch.cuda.init()
    model, x = nn.Linear(8, 8), torch.ones(2, 8)
    g = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(g):
        model(x)


def works() -> None:
    """Model and input are on the GPU of the capture stream."""
    model, x = nn.Linear(8, 8).cuda(), torch.ones(2, 8, device="cuda")
    with torch.no_grad():
        model(x)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            y = model(x)
        for value in (3.0, 5.0):
            x.fill_(value)
            g.replay()
            torch.testing.assert_close(y, model(x))
