"""compile-skip-without-message: nothing is left to record, and nothing is said."""

import torch
from torch._dynamo.utils import counters


@torch.library.custom_op("errors_compile::host_scale", mutates_args=(), tags=(torch._C.Tag.cudagraph_unsafe,))
def host_scale(t: torch.Tensor) -> torch.Tensor:
    return t * float(t.abs().max().item())


@host_scale.register_fake
def _(t: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(t)


def fails() -> None:
    """The only op is unsafe: no graph, no skip counted, no message."""
    counters.clear()
    fast = torch.compile(host_scale, mode="reduce-overhead")
    for value in range(5):
        fast(torch.full((64,), float(value), device="cuda"))
    assert counters["inductor"]["cudagraph_skips"] == 0
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] == 0


def works() -> None:
    """The same value without the host: one recording."""
    counters.clear()
    fast = torch.compile(lambda t: t * t.abs().max(), mode="reduce-overhead")
    for value in range(6):
        out = fast(torch.full((64,), float(value), device="cuda"))
        assert out[0].item() == value**2
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] == 1
