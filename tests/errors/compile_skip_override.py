"""compile-skip-override: a helper carries override_cudagraphs(fwd=False)."""

# needs: torch>=2.13 (older releases do not say it)
import torch
from torch._dynamo.utils import counters


@torch._dynamo.override_cudagraphs(fwd=False)
def head(t: torch.Tensor) -> torch.Tensor:
    return t.relu() * 2


def plain_head(t: torch.Tensor) -> torch.Tensor:
    return t.relu() * 2


def fails() -> None:
    """The annotation acts on the whole graph that inlines the helper."""
    fast = torch.compile(lambda t: head(t + 1), mode="reduce-overhead")
    for _ in range(3):
        fast(torch.ones(64, device="cuda"))


def works() -> None:
    """The same helper without the annotation."""
    fast = torch.compile(lambda t: plain_head(t + 1), mode="reduce-overhead")
    for value in range(6):
        out = fast(torch.full((64,), float(value), device="cuda"))
        assert out[0].item() == 2 * (value + 1)
    assert counters["inductor"]["cudagraph_skips"] == 0
