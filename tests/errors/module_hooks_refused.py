"""module-hooks-refused: a module with a forward hook is graphed."""

import torch
from torch import nn


def fails() -> None:
    """A logging hook is already there."""
    model = nn.Linear(64, 64).cuda()
    model.register_forward_hook(lambda _module, _args, out: print(out.shape))
    torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))


def works() -> None:
    """The hook is registered afterwards and runs around each replay."""
    model = nn.Linear(64, 64).cuda()
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    seen: list[torch.Tensor] = []
    graphed.register_forward_hook(lambda _module, _args, out: seen.append(out.detach().clone()))
    for number in range(1, 3):
        x = torch.randn(32, 64, device="cuda")
        graphed(x)
        assert len(seen) == number
        torch.testing.assert_close(seen[-1], nn.functional.linear(x, weight, bias))
