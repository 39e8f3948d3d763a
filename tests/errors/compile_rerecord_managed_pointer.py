"""compile-rerecord-managed-pointer: an input that was an earlier graph's output moves."""

import torch
from torch._dynamo.utils import counters


def first(t: torch.Tensor) -> torch.Tensor:
    return t + 1


def second(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """Chained while recording, cloned in between later."""
    torch._logging.set_logs(cudagraphs=True)
    torch._inductor.config.triton.cudagraph_unexpected_rerecord_limit = 0  # the reason also as a warning
    f = torch.compile(first, mode="reduce-overhead")
    g = torch.compile(second, mode="reduce-overhead")
    for step in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        hidden = f(torch.full((64,), float(step), device="cuda"))
        out = g(hidden) if step < 4 else g(hidden.clone())
        assert out[0].item() == 2 * (step + 1)


def works() -> None:
    """The same chain in every step; recordings end after the first ones."""
    f = torch.compile(first, mode="reduce-overhead")
    g = torch.compile(second, mode="reduce-overhead")
    recorded = 0
    for step in range(8):
        torch.compiler.cudagraph_mark_step_begin()
        hidden = f(torch.full((64,), float(step), device="cuda"))
        out = g(hidden)
        assert out[0].item() == 2 * (step + 1)
        if step == 3:
            recorded = counters["inductor"]["cudagraph_recorded_non_static_inputs"]
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] == recorded
