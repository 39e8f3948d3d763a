"""inplace-update-to-inference-tensor: a static input made under inference_mode."""

import torch
from torch import nn


def fails() -> None:
    """The input is refilled outside the mode in which it was created."""
    model = nn.Linear(64, 64).cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode():
        x = torch.randn(32, 64, device="cuda")
        model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            model(x)
    x.copy_(torch.randn(32, 64, device="cuda"))
    graph.replay()


def works() -> None:
    """The static input is an ordinary tensor; only the capture runs under the mode."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode():
        model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = model(x)
    for _ in range(2):
        x.copy_(torch.randn(32, 64, device="cuda"))
        graph.replay()
        assert torch.allclose(out, model(x).detach(), atol=1e-5)
