"""Which way of running a training step equals which to the bit: for benchmarks/techniques.py.

Ten steps of a small residual network from the same weights: the losses and the weights of two ways are compared.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from technique_programs import captured, seeded
from torch import Tensor, nn

_ADAMW = {
    "foreach": {"foreach": True},
    "foreach capturable": {"foreach": True, "capturable": True},
    "single": {"foreach": False},
    "single capturable": {"foreach": False, "capturable": True},
    "fused": {"fused": True},
    "fused capturable": {"fused": True, "capturable": True},
}
PAIRS = (  # way and AdamW of each; "moved": its weights by one unit in the last place
    ("eager, foreach capturable", "eager, foreach capturable"),
    ("graph, foreach capturable", "eager, foreach capturable"),
    ("graph, fused capturable", "eager, fused capturable"),
    ("eager, fused capturable", "eager, fused"),
    ("eager, foreach capturable", "eager, foreach"),
    ("eager, single capturable", "eager, foreach capturable"),
    ("eager, single", "eager, foreach"),
    ("eager, fused", "eager, foreach"),
    ("compiled, foreach capturable", "eager, foreach capturable"),
    ("graph over compiled, foreach capturable", "compiled, foreach capturable"),
    ("reduce-overhead, foreach capturable", "compiled, foreach capturable"),
    ("moved, foreach capturable", "eager, foreach capturable"),
)
_STEPS = 10


class _Block(nn.Module):
    """A residual block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(256), nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def trained(way: str, adamw: str) -> list[Tensor]:
    """Return the losses of ten steps and the weights after them."""
    torch.manual_seed(0)
    torch._dynamo.reset()  # noqa: SLF001 - each way compiles a model of its own
    model = nn.Sequential(*[_Block() for _ in range(4)]).cuda()
    params = seeded(model.parameters(), moved=way == "moved")
    x, y, data = (torch.randn(size, device="cuda") for size in ((64, 256), (64, 256), (_STEPS, 2, 64, 256)))
    optimizer = torch.optim.AdamW(params, **_ADAMW[adamw])
    called: Any = model
    if way in ("compiled", "graph over compiled", "reduce-overhead"):
        called = torch.compile(model, mode="reduce-overhead" if way == "reduce-overhead" else None)
    losses: list[Tensor] = []

    def step() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(called(x), y)
        loss.backward()
        optimizer.step()
        losses[:] = [loss.detach()]

    start = [weight.detach().clone() for weight in params]
    if way.startswith("graph"):
        run = captured(step).replay
    else:
        run = step
        for _ in range(3):
            run()
    with torch.no_grad():
        for weight, old in zip(params, start, strict=True):
            weight.copy_(old)
        for state in optimizer.state.values():
            for value in state.values():
                value.zero_()
    kept = []
    for a, b in data:
        x.copy_(a)
        y.copy_(b)
        run()
        kept.append(losses[0].clone())
    return [torch.stack(kept), *(weight.detach() for weight in params)]


def compared() -> dict[str, float]:
    """Return the largest difference of each pair, relative to the root mean square of its tensor."""
    results: dict[str, list[Tensor]] = {}
    for name in {side for pair in PAIRS for side in pair}:
        results[name] = [tensor.double().clone() for tensor in trained(*name.split(", "))]
    return {
        f"{first} / {second}": max(
            float((a - b).abs().max() / b.square().mean().sqrt()) for a, b in zip(results[first], results[second], strict=True)
        )
        for first, second in PAIRS
    }
