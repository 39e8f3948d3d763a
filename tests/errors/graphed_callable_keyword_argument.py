"""graphed-callable-keyword-argument: the graphed module is called with a keyword."""

import torch
from torch import nn


def fails() -> None:
    """The graphed forward takes positional tensors only."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    graphed(input=x)


def works() -> None:
    """The same call by position."""
    model = nn.Linear(64, 64).cuda()
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda")
        torch.testing.assert_close(graphed(x), nn.functional.linear(x, weight, bias))
