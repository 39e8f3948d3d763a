"""weights-stale-under-autocast: an autocast block is open around warm-up and capture."""

import torch
from torch import nn


def fails() -> None:
    """The cast of the weight was cached before the capture, so the graph holds no cast."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.autocast("cuda", torch.bfloat16):
        model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = model(x)
        graph.replay()
        old = out.detach().clone()
        with torch.no_grad():
            model.weight.zero_()
        graph.replay()
        assert torch.equal(out, old)


def works() -> None:
    """Autocast begins and ends inside the capture."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        model(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.autocast("cuda", torch.bfloat16):
        out = model(x)
    for factor in (1.0, 3.0):
        with torch.no_grad():
            model.weight.mul_(factor)
        x.copy_(torch.randn_like(x))
        graph.replay()
        with torch.autocast("cuda", torch.bfloat16):
            torch.testing.assert_close(out, model(x))
