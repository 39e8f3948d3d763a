"""compile-rerecord-limit: the input of the second function no longer comes from the first one's graph."""

import torch
from torch._dynamo.utils import counters


def first(t: torch.Tensor) -> torch.Tensor:
    return t + 1


def second(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def _allow_no_rerecording() -> None:
    """A limit of 0 shows the message at once; torch 2.5 to 2.11 obey it only where modules are not inlined."""
    torch._inductor.config.triton.cudagraph_unexpected_rerecord_limit = 0
    torch._dynamo.config.inline_inbuilt_nn_modules = False


def fails() -> None:
    """Chained while recording, cloned in between later."""
    _allow_no_rerecording()
    f = torch.compile(first, mode="reduce-overhead")
    g = torch.compile(second, mode="reduce-overhead")
    for step in range(8):
        torch.compiler.cudagraph_mark_step_begin()
        hidden = f(torch.full((64,), float(step), device="cuda"))
        out = g(hidden) if step < 4 else g(hidden.clone())
        assert out[0].item() == 2 * (step + 1)


def works() -> None:
    """Always cloned: an ordinary input, copied before each replay."""
    _allow_no_rerecording()
    f = torch.compile(first, mode="reduce-overhead")
    g = torch.compile(second, mode="reduce-overhead")
    for step in range(8):
        torch.compiler.cudagraph_mark_step_begin()
        hidden = f(torch.full((64,), float(step), device="cuda")).clone()
        out = g(hidden)
        assert out[0].item() == 2 * (step + 1)
    assert counters["inductor"]["cudagraph_skips"] == 0
