"""graphed-gradients-overwritten: two backward passes of a graphed module into .grad that starts as None."""

import copy

import torch
from torch import nn


def _accumulate(model: nn.Module, batches: list[torch.Tensor]) -> torch.Tensor:
    for batch in batches:
        model(batch).square().mean().backward()
    return model.weight.grad.clone()


def fails() -> None:
    """The first gradient is the graph's own buffer, and the second replay overwrites it."""
    model = nn.Linear(64, 64).cuda()
    eager = copy.deepcopy(model)
    batches = [torch.randn(32, 64, device="cuda"), torch.randn(32, 64, device="cuda") * 3]
    graphed = torch.cuda.make_graphed_callables(model, (batches[0].clone(),))
    graphed.zero_grad(set_to_none=True)
    got, want = _accumulate(graphed, batches), _accumulate(eager, batches)
    assert not torch.allclose(got, want, rtol=1e-3, atol=1e-4)


def works() -> None:
    """.grad is allocated once and zeroed in place."""
    model = nn.Linear(64, 64).cuda()
    eager = copy.deepcopy(model)
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    for module in (graphed, eager):
        for parameter in module.parameters():
            parameter.grad = torch.zeros_like(parameter)
    for _ in range(2):
        batches = [torch.randn(32, 64, device="cuda"), torch.randn(32, 64, device="cuda") * 3]
        torch.testing.assert_close(_accumulate(graphed, batches), _accumulate(eager, batches))
        graphed.zero_grad(set_to_none=False)
        eager.zero_grad(set_to_none=False)
