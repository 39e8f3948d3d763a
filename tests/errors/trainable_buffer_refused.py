"""trainable-buffer-refused: a buffer that requires grad in a module that is graphed."""

import torch
from torch import nn


def fails() -> None:
    """The buffer was registered as trainable."""
    model = nn.Linear(64, 64).cuda()
    model.register_buffer("scale", torch.ones(64, device="cuda", requires_grad=True))
    torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))


def works() -> None:
    """A buffer is a constant tensor; what trains is a parameter."""
    model = nn.Linear(64, 64).cuda()
    model.register_buffer("scale", torch.ones(64, device="cuda"))
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda")
        torch.testing.assert_close(graphed(x), nn.functional.linear(x, weight, bias))
