"""differentiated-tensor-unused: a graphed module with a parameter that no output needs."""

import torch
from torch import nn


def fails() -> None:
    """The parameter `spare` is never used in forward."""
    model = nn.Linear(64, 64).cuda()
    model.register_parameter("spare", nn.Parameter(torch.ones(64, device="cuda")))
    torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))


def works() -> None:
    """Unused tensors are allowed and get no gradient."""
    model = nn.Linear(64, 64).cuda()
    model.register_parameter("spare", nn.Parameter(torch.ones(64, device="cuda")))
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    x = torch.randn(32, 64, device="cuda")
    graphed = torch.cuda.make_graphed_callables(model, (x,), allow_unused_input=True)
    for _ in range(2):
        batch = torch.randn(32, 64, device="cuda")
        out = graphed(batch)
        torch.testing.assert_close(out, nn.functional.linear(batch, weight, bias))
        out.sum().backward()
    assert model.spare.grad is None
    assert model.weight.grad is not None
